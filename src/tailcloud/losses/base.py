"""The base class of losses: an ``nn.Module`` on the outputs of a head, with explicit randomness."""

from typing import ClassVar, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Word = TypeVar("Word", bound=str)


class Loss(nn.Module):
    """``loss(output, target)`` is a scalar; ``output`` is [batch, classes], ``target`` [batch] of class numbers.

    A loss with a random part implements ``draw``; the training loop calls it with a generator of its own and
    passes the result in as ``epsilon``, so that a compiled or captured step draws nothing by itself.
    A loss that changes during a stage implements ``advance``.
    """

    needs_cosine: ClassVar[bool] = False
    shiftable: ClassVar[bool] = True  # a constant may be added to the outputs: they are not taken as angles
    clouds: ClassVar[bool] = False  # it lowers outputs by random clouds, whose sizes follow from the class counts
    balances: ClassVar[bool] = False  # the clean logits imply a uniform class prior
    per_image: bool = False  # a plain mean over images, so that a batch can be split into micro-batches
    weighs: ClassVar[bool] = False  # a weighted mean over images, which ``in_whole`` corrects for micro-batches

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = positive("scale", scale)

    def logits(self, output: Tensor) -> Tensor:
        """The clean logits for prediction: outputs times the scale, without noise or margin."""
        return self.scale * output

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """The class prior that the clean logits imply after training on images with the prior ``shown``; sums to 1.

        By default ``shown`` itself, or uniform if ``balances`` is set.
        """
        return np.full(len(shown), 1 / len(shown)) if self.balances else shown

    def advance(self, share: float) -> None:
        """Called before each epoch with the share of the stage's epochs that are done, 0 ≤ share < 1.

        Only change registered buffers, in place: a captured CUDA graph reads them at their address, and a compiled step
        is not compiled again. The change must depend on the share alone, or a resumed run would differ.
        """

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor | None:  # noqa: ARG002
        """The random numbers that one call on ``rows`` samples needs; None when the loss is deterministic.

        Their first dimension is ``rows``, or 1 if all samples share them.
        """
        return None

    def in_whole(self, mean: Tensor, target: Tensor, whole: Tensor) -> Tensor:  # noqa: ARG002
        """The mean loss of a micro-batch, corrected so that micro-batches average to the loss of the batch.

        ``target`` are the classes of the micro-batch, ``whole`` those of the batch. The average is weighted by images.
        """
        return mean

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean loss of a batch."""
        raise NotImplementedError


def positive(name: str, value: float) -> float:
    """The value, if it is a positive finite number."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} = {value} must be a positive number")
    return value


def not_negative(name: str, value: float) -> float:
    """The value, if it is zero or a positive finite number."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} = {value} must be at least 0")
    return value


def within(name: str, value: float, low: float, high: float) -> float:
    """The value, if it lies in [low, high]."""
    if not low <= value <= high:
        raise ValueError(f"{name} = {value} must lie between {low:g} and {high:g}")
    return value


def one_of(name: str, value: Word, words: object) -> Word:
    """The value, if it is one of the ``words``, a ``Literal``."""
    if value not in get_args(words):
        raise ValueError(f'{name} = "{value}" must be one of {", ".join(get_args(words))}')
    return value


def at_least_float32(output: Tensor) -> Tensor:
    """Outputs in float32 or better: a softmax in half precision is too inaccurate."""
    return output if output.dtype == torch.float64 else output.float()


def batch_mean(per_sample: Tensor) -> Tensor:
    """The mean over a batch; 0 instead of NaN for an empty one."""
    return per_sample.sum() / max(len(per_sample), 1)
