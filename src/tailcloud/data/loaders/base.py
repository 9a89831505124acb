"""What every loader has, wherever its images are: draws for whole epochs, batches, and pieces of batches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from tailcloud.data.augment.mixup import draw_lambdas, draw_partners
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.pipeline import RATIO, Views
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.batch_share import WHOLE, Share
from tailcloud.data.loaders.epoch_plan import EpochPlan, batch_ends
from tailcloud.randomness import host_generator
from tailcloud.sampling import Sampler


class Images(Protocol):
    """A part of a data set, on its way to a device or there."""

    labels: Tensor

    @property
    def device(self) -> torch.device:
        """Where its batches are wanted."""

    @property
    def remarks(self) -> Sequence[str]:
        """What happened to images on their way."""

    def in_order(self, transform: Normalise, share: Share = WHOLE) -> Iterator[Batch]:
        """Every image once, as stored, for evaluation; or those of the batches that are a share of all."""

    def some(self, transform: Normalise, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows, given on the host, as stored."""


Source = TypeVar("Source", bound=Images)


class PlannedLoader(Generic[Source]):
    """Epochs of sampled, augmented, mixed batches.

    What an epoch needs is drawn as whole arrays at its start from (seed, stage, part, epoch), on the host, so that
    every device sees the same draws; the rest is device code on whole batches. Loaders that differ in the name of their
    ``views`` show the same images in the same order, varied in other ways; how they are varied is for ``Views``.
    ``share`` says which pieces of each batch are computed here.
    """

    def __init__(
        self,
        data: Source,
        sampler: Sampler,
        transform: Normalise,
        *,
        batch: int,
        crop_padding: int = 0,
        flip: bool = False,
        area: Sequence[float] | None = None,
        ratio: Sequence[float] | None = None,
        jitter: Sequence[float] | None = None,
        shape: tuple[int, int] | None = None,
        mixup: float = 0.0,
        seed: int = 0,
        stage: str = "stage1",
        epochs: int = 0,
        views: str = "views",
        share: Share = WHOLE,
    ) -> None:
        self.data, self.sampler, self.transform, self.mixup = data, sampler, transform, mixup
        self.crop_padding = crop_padding
        self.look = Views(transform, crop_padding, flip, area, ratio or RATIO, jitter, shape)
        self.seed, self.stage, self.epochs, self.views, self.own = seed, stage, epochs, views, share
        self.size = len(data.labels)
        self.ends = batch_ends(self.size, batch)

    @property
    def device(self) -> torch.device:
        """Where the batches are."""
        return self.data.device

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return len(self.ends)

    @property
    def sizes(self) -> list[int]:
        """Images in each batch of an epoch."""
        sizes: list[int] = np.diff(self.ends, prepend=0).tolist()
        return sizes

    def share(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch; 0 where nobody said how many there are."""
        return number / self.epochs if self.epochs else 0.0

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; the same ones whenever that epoch is asked for."""
        plan = self.plan(number)
        for step in range(self.steps):
            yield self.at(plan, step)

    def rounds(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """The steps of an epoch from step ``first`` on; of each, the pieces of its batch that are computed here."""
        plan = self.plan(number)
        for step in range(first, self.steps):
            yield (self.at(plan, step),) if self.own == WHOLE else self.pieces(plan, step)

    def bounds(self, step: int) -> tuple[int, int]:
        """Where the batch of a step starts and ends among the rows of its epoch."""
        return int(self.ends[step - 1]) if step else 0, int(self.ends[step])

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, where ``assemble`` wants it."""
        return self.drawn(number)

    def drawn(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the host."""
        order = self.sampler.draw(self._generator("order", number), self.share(number))
        draws = self.look.draw(lambda part: self._generator(f"{self.views}{part}", number), self.size)
        return EpochPlan(torch.from_numpy(order), draws, *self._draw_mixing(number))

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""
        return self.assemble(plan, torch.arange(*self.bounds(step), device=plan.order.device), plan.lambdas[step])

    def pieces(self, plan: EpochPlan, step: int) -> tuple[Batch, ...]:
        """The pieces of a batch that are computed here; the partners of their images may lie in others."""
        start, end = self.bounds(step)
        whole, made = self.data.labels[plan.order[start:end]], []
        for first, last in self.own.pieces(start, end):
            rows = torch.arange(first, last, device=plan.order.device)
            piece = self.assemble_piece(plan, rows, plan.lambdas[step])
            made.append(replace(piece, place=first - start, whole=whole))
        return tuple(made)

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        raise NotImplementedError

    def assemble_piece(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The same for rows whose mixing partners may lie elsewhere in their batch."""
        raise NotImplementedError

    def _draw_mixing(self, number: int) -> tuple[Tensor, Tensor]:
        if not self.mixup:
            return torch.zeros(0, dtype=torch.int64), torch.ones(self.steps)
        generator = self._generator("mixup", number)
        lambdas = draw_lambdas(generator, self.mixup, self.steps)
        partners = draw_partners(generator, np.repeat(np.arange(self.steps), self.sizes))
        return torch.from_numpy(partners), torch.from_numpy(lambdas)

    def _generator(self, part: str, number: int) -> np.random.Generator:
        return host_generator(self.seed, self.stage, part, number)
