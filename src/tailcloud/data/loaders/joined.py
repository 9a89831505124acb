"""Several streams of batches as one: for objectives that see an image twice, or two samplers side by side."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tailcloud.data.loaders.base import PlannedLoader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan

AnyLoader = PlannedLoader[Any]


class JoinedLoader:
    """A loader whose batches carry a second view of their images, or a batch of a second sampler, or both.

    All streams have equally many images an epoch, so that their batches go together.
    """

    def __init__(self, first: AnyLoader, *, view: AnyLoader | None = None, second: AnyLoader | None = None) -> None:
        self.first, self.view, self.second = first, view, second
        self.others = [loader for loader in (view, second) if loader]
        self.streams = [first, *self.others]
        self.seed, self.stage = first.seed, first.stage

    @property
    def device(self) -> torch.device:
        """Where the batches are."""
        return self.first.device

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return self.first.steps

    @property
    def sizes(self) -> list[int]:
        """Images in each batch of an epoch."""
        return self.first.sizes

    def share(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch."""
        return self.first.share(number)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; the same ones whenever that epoch is asked for."""
        for batches in zip(*(loader.epoch(number) for loader in self.streams), strict=True):
            yield self._joined(iter(batches))

    def rounds(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """The steps of an epoch from step ``first`` on; of each, the pieces of its batch that are computed here."""
        for pieces in zip(*(loader.rounds(number, first) for loader in self.streams), strict=True):
            yield tuple(self._joined(iter(piece)) for piece in zip(*pieces, strict=True))

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch."""
        return replace(self.first.plan(number), others=tuple(loader.plan(number) for loader in self.others))

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""
        return self._joined(loader.at(own, step) for loader, own in self._streams(plan))

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        return self._joined(loader.assemble(own, rows, lam) for loader, own in self._streams(plan))

    def _streams(self, plan: EpochPlan) -> Iterator[tuple[AnyLoader, EpochPlan]]:
        return zip(self.streams, [plan, *plan.others], strict=True)

    def _joined(self, batches: Iterator[Batch]) -> Batch:
        first = next(batches)
        view = next(batches).images if self.view else None
        return replace(first, view=view, second=next(batches) if self.second else None)
