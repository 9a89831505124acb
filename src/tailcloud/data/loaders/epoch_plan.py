"""What an epoch shows, drawn before it starts: the same for every plane of data, device and number of processes."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.loaders.batch import Batch


def batch_ends(size: int, batch: int) -> NDArray[np.int64]:
    """Where the batches of an epoch end. The last one is smaller, but never a single image: batch norm needs two."""
    ends = np.append(np.arange(batch, size, batch), size)
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        ends = np.delete(ends, -2)
    return ends


def _nothing() -> Tensor:
    return torch.zeros(0)


@dataclass(frozen=True)
class Draws:
    """How each image of an epoch is varied, one row per image; what nobody asked for is empty.

    ``corners`` [N, 2] and ``flips`` [N] are of crops and mirroring; ``tries`` [N, 10, 2] (share of the area, logarithm
    of the ratio) and ``places`` [N, 2] in 0 … 1 of random resized crops; ``factors`` [N, 3] of colours.
    """

    corners: Tensor
    flips: Tensor
    tries: Tensor = field(default_factory=_nothing)
    places: Tensor = field(default_factory=_nothing)
    factors: Tensor = field(default_factory=_nothing)

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def to(self, device: torch.device) -> "Draws":
        """The same on a device."""
        return Draws(**{name: each.to(device) for name, each in self.tensors().items()})


@dataclass(frozen=True)
class EpochPlan:
    """What an epoch needs, drawn before it starts; one row per image of the epoch, ``lambdas`` one per step."""

    order: Tensor
    draws: Draws
    partners: Tensor
    lambdas: Tensor
    others: tuple["EpochPlan", ...] = ()  # of further streams

    def tensors(self) -> tuple[Tensor, ...]:
        """All of it."""
        own = self.order, *self.draws.tensors().values(), self.partners, self.lambdas
        return sum((other.tensors() for other in self.others), own)

    def to(self, device: torch.device) -> "EpochPlan":
        """The same on a device."""
        return replace(
            self,
            order=self.order.to(device),
            draws=self.draws.to(device),
            partners=self.partners.to(device),
            lambdas=self.lambdas.to(device),
        )


class Loader(Protocol):
    """Where the batches of a stage come from."""

    seed: int
    stage: str

    @property
    def device(self) -> torch.device:
        """Where the batches are."""

    @property
    def steps(self) -> int:
        """Batches per epoch."""

    @property
    def sizes(self) -> list[int]:
        """Images in each batch of an epoch."""

    def share(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch."""

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; the same ones whenever that epoch is asked for."""

    def rounds(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """The steps of an epoch from step ``first`` on; of each, the pieces of its batch that are computed here."""

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch."""

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
