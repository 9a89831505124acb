"""The resident plane: the whole training set is one uint8 tensor on the device, and a batch is an index into it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment import crop_and_flip
from tailcloud.data.batch import Batch
from tailcloud.data.dataset import Split
from tailcloud.data.mixing import draw_lambdas, draw_partners, mix
from tailcloud.data.pieces import WHOLE, Share
from tailcloud.data.transform import Normalise
from tailcloud.randomness import host_generator
from tailcloud.sampling import Sampler

CACHED_PIXELS = 128 * 32 * 32  # beyond these a CPU waits for its memory
AT_ONCE, PIXELS_AT_ONCE = 1024, 1024 * 224 * 224  # for a GPU: more images, or larger ones, would fill its memory


def images_at_once(device: torch.device, pixels: int) -> int:
    """How many images of so many pixels a model is shown at a time, when nothing is trained: as the device has it best.

    Many for a GPU, as many as a cache holds for a CPU.
    """
    if device.type == "cuda":
        return max(1, min(AT_ONCE, PIXELS_AT_ONCE // pixels))
    return max(16, CACHED_PIXELS // pixels)


class ResidentImages:
    """A part of a data set on the device."""

    def __init__(self, split: Split, device: torch.device) -> None:
        self.images = torch.from_numpy(split.pixels).to(device)
        self.labels = torch.from_numpy(split.labels).to(device)

    def in_order(self, transform: Normalise) -> Iterator[Batch]:
        """Every image once, as stored, for evaluation."""
        batch = images_at_once(self.images.device, self.images.shape[1] * self.images.shape[2])
        for start in range(0, len(self.labels), batch):
            here = slice(start, start + batch)
            yield Batch(transform(self.images[here]), self.labels[here])


def batch_ends(size: int, batch: int) -> NDArray[np.int64]:
    """Where the batches of an epoch end. The last one is smaller, but never a single image: batch norm needs two."""
    ends = np.append(np.arange(batch, size, batch), size)
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        ends = np.delete(ends, -2)
    return ends


@dataclass(frozen=True)
class EpochPlan:
    """What an epoch needs, drawn before it starts; one row per image of the epoch, ``lambdas`` one per step."""

    order: Tensor
    corners: Tensor
    flips: Tensor
    partners: Tensor
    lambdas: Tensor
    others: tuple["EpochPlan", ...] = ()  # of further streams

    def tensors(self) -> tuple[Tensor, ...]:
        """All of it."""
        own = self.order, self.corners, self.flips, self.partners, self.lambdas
        return sum((other.tensors() for other in self.others), own)


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
        """The steps of an epoch from step ``first`` on: of each, the pieces that are computed here, or the batch."""

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the device."""

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""


class ResidentLoader:
    """Epochs of sampled, augmented, mixed batches.

    What an epoch needs is drawn as whole arrays at its start from (seed, stage, part, epoch), on the host, so that
    every device sees the same draws; the rest is device code on whole batches. Loaders that differ in the name of their
    ``views`` show the same images in the same order, varied in other ways.
    """

    def __init__(
        self,
        data: ResidentImages,
        sampler: Sampler,
        transform: Normalise,
        *,
        batch: int,
        crop_padding: int = 0,
        flip: bool = False,
        mixup: float = 0.0,
        seed: int = 0,
        stage: str = "stage1",
        epochs: int = 0,
        views: str = "views",
        share: Share = WHOLE,
    ) -> None:
        self.data, self.sampler, self.transform = data, sampler, transform
        self.crop_padding, self.flip, self.mixup = crop_padding, flip, mixup
        self.seed, self.stage, self.epochs, self.views = seed, stage, epochs, views
        self.own = share
        self.size = len(data.labels)
        self.ends = batch_ends(self.size, batch)

    @property
    def device(self) -> torch.device:
        """Where the batches are."""
        return self.data.images.device

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
        """The steps of an epoch from step ``first`` on: of each, the pieces that are computed here, or the batch."""
        plan = self.plan(number)
        for step in range(first, self.steps):
            yield (self.at(plan, step),) if self.own == WHOLE else self.pieces(plan, step)

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the device."""
        order = self.sampler.draw(self._generator("order", number), self.share(number))
        views = self._generator(self.views, number)
        corners = views.integers(0, 2 * self.crop_padding, (self.size, 2), endpoint=True)
        flips = views.random(self.size) < (0.5 if self.flip else 0.0)
        partners, lambdas = self._draw_mixing(number)
        return EpochPlan(
            self._to_device(order),
            self._to_device(corners),
            self._to_device(flips),
            self._to_device(partners),
            self._to_device(lambdas),
        )

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""
        start, end = self._bounds(step)
        return self.assemble(plan, torch.arange(start, end, device=self.device), plan.lambdas[step])

    def pieces(self, plan: EpochPlan, step: int) -> tuple[Batch, ...]:
        """The pieces of a batch that are computed here; the partners of their images may lie in others."""
        start, end = self._bounds(step)
        made = []
        for first, last in self.own.pieces(start, end):
            rows = torch.arange(first, last, device=self.device)
            piece = self.assemble_piece(plan, rows, plan.lambdas[step])
            made.append(replace(piece, place=first - start, whole=end - start))
        return tuple(made)

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch: whole-batch device code, nothing drawn and nothing read."""
        floats, target = self._varied(plan, rows)
        if not self.mixup:
            return Batch(floats, target)
        partners = plan.partners[rows] - rows[0]
        return Batch(mix(floats, floats[partners], lam), target, target[partners], lam)

    def assemble_piece(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The same for rows that need not hold their own partners, which are made for themselves."""
        floats, target = self._varied(plan, rows)
        if not self.mixup:
            return Batch(floats, target)
        others, other = self._varied(plan, plan.partners[rows])
        return Batch(mix(floats, others, lam), target, other, lam)

    def _varied(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised images at some rows, cropped and flipped as planned, and their classes."""
        chosen = plan.order[rows]
        images, target = self.data.images[chosen], self.data.labels[chosen]
        if self.crop_padding or self.flip:
            images = crop_and_flip(images, plan.corners[rows], plan.flips[rows], self.crop_padding)
        return self.transform(images), target

    def _bounds(self, step: int) -> tuple[int, int]:
        """Where a batch starts and ends among the rows of an epoch."""
        return int(self.ends[step - 1]) if step else 0, int(self.ends[step])

    def _draw_mixing(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if not self.mixup:
            return np.zeros(0, np.int64), np.ones(self.steps, np.float32)
        generator = self._generator("mixup", number)
        lambdas = draw_lambdas(generator, self.mixup, self.steps)
        return draw_partners(generator, np.repeat(np.arange(self.steps), self.sizes)), lambdas

    def _generator(self, part: str, number: int) -> np.random.Generator:
        return host_generator(self.seed, self.stage, part, number)

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
