"""What an executor is: it runs the epochs of one stage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class EpochState:
    """An unfinished epoch: the losses of its steps so far, and the state of the noise generator."""

    losses: Tensor
    clouds: Tensor


class Executor(Protocol):
    """Runs the epochs of one stage."""

    def prepare(self) -> None:
        """Compile or capture before the first epoch; the model, in the modes of its stage, is left unchanged."""

    def epoch(
        self,
        number: int,
        rates: Sequence[float],
        *,
        resume_from: EpochState | None = None,
        between_steps: Callable[[], None] | None = None,
    ) -> Tensor:
        """Train one epoch, or the rest of an unfinished one; the loss of each step, still on the device.

        ``rates`` has the learning rate of each step of the whole epoch; with fewer rates the epoch has fewer steps.
        ``between_steps`` is called between two steps, if the executor returns to Python there. It may call ``state``,
        shorten ``rates``, or raise.
        """

    def state(self) -> EpochState:
        """The state of the current epoch, between two steps."""
