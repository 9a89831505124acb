"""Several loaders as one, for objectives that need several views of an image, or two samplers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan


class JoinedLoader:
    """A loader whose batches carry further views of their images, or a batch of a second sampler, or both.

    All loaders have the same number of images per epoch, so their batches have the same sizes.
    """

    def __init__(self, first: Loader, *, views: Sequence[Loader] = (), second: Loader | None = None) -> None:
        self.first, self.views, self.second = first, views, second
        self.others = [*views, *([second] if second else [])]
        self.loaders = [first, *self.others]
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

    def progress(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch."""
        return self.first.progress(number)

    def follow(self, progress: Callable[[int], float]) -> None:
        """Take the progress from now on from this function."""
        for loader in self.loaders:
            loader.follow(progress)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; an epoch always has the same batches."""
        for batches in zip(*(loader.epoch(number) for loader in self.loaders), strict=True):
            yield self._joined(iter(batches))

    def micro_batches(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """For each step of an epoch, from step ``first`` on, the micro-batches that this rank computes."""
        for steps in zip(*(loader.micro_batches(number, first) for loader in self.loaders), strict=True):
            yield tuple(self._joined(iter(batches)) for batches in zip(*steps, strict=True))

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch."""
        return replace(self.first.plan(number), others=tuple(loader.plan(number) for loader in self.others))

    def draw_plan(self, number: int) -> EpochPlan:
        """The same on the host."""
        return replace(self.first.draw_plan(number), others=tuple(loader.draw_plan(number) for loader in self.others))

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""
        return self._joined(loader.at(own, step) for loader, own in self._with_plans(plan))

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        return self._joined(loader.assemble(own, rows, lam) for loader, own in self._with_plans(plan))

    def _with_plans(self, plan: EpochPlan) -> Iterator[tuple[Loader, EpochPlan]]:
        return zip(self.loaders, [plan, *plan.others], strict=True)

    def _joined(self, batches: Iterator[Batch]) -> Batch:
        first = next(batches)
        views = tuple(next(batches).images for _ in self.views)
        return replace(first, views=views, second=next(batches) if self.second else None)
