"""What a loader is: the batches of a stage, epoch by epoch."""

from collections.abc import Callable, Iterator
from typing import Protocol, Required, TypedDict

import torch
from torch import Tensor

from tailcloud.data.augment import Augment
from tailcloud.data.loaders.batch import Batch, BatchShare
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.sampling import Sampler


class LoaderOptions(TypedDict, total=False):
    """The options of a loader, as ``PlannedLoader`` explains them."""

    batch: Required[int]
    augment: Augment
    shape: tuple[int, int] | None
    mixup: float
    cutmix: float
    cutmix_sampler: Sampler | None
    cutmix_probability: float | None
    seed: int
    stage: str
    epochs: int
    views: str
    share: BatchShare


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

    def progress(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch: 0 ≤ progress < 1, and 1 after the last."""

    def follow(self, progress: Callable[[int], float]) -> None:
        """Take the progress from now on from this function: a stage may end earlier than planned."""

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; an epoch always has the same batches."""

    def micro_batches(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """For each step of an epoch, from step ``first`` on, the micro-batches that this rank computes."""

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, where ``assemble`` reads it."""

    def draw_plan(self, number: int) -> EpochPlan:
        """The same on the host. It depends on the epoch and its ``progress`` alone."""

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
