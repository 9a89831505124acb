"""What all loaders share: draws for whole epochs, batches, and micro-batches."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from tailcloud.data.augment import Augment
from tailcloud.data.augment.base import Draws
from tailcloud.data.augment.cutmix import draw_boxes, paste
from tailcloud.data.augment.mixup import draw_lambdas, draw_partners, mix
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.pipeline import AugmentPipeline
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.epoch_plan import EpochPlan, batch_ends
from tailcloud.data.loaders.images import Images
from tailcloud.randomness import host_generator
from tailcloud.sampling import Sampler

Source = TypeVar("Source", bound=Images)


class PlannedLoader(Generic[Source]):
    """Epochs of sampled, augmented, mixed batches.

    Whatever is random in an epoch is drawn as whole arrays at its start, on the host, from (seed, stage, part, epoch):
    every device sees the same draws. The rest is device code on whole batches.

    Args:
        data: the images.
        sampler: draws the order of an epoch.
        transform: normalisation, after all augmentations.
        batch: images of a batch.
        augment: the augmentations, as in the recipe.
        shape: height and width that the model expects; by default those of the stored images.
        mixup: α of mixup; 0 disables it.
        cutmix: α of CutMix; 0 disables it. With both, each batch takes one of the two, as likely as the other.
        cutmix_sampler: draws the partners of CutMix; by default they are of the same batch. Not with mixup.
        cutmix_probability: the share of batches with CutMix; by default 1/2 with mixup, else 1. Without mixup, the
            other batches are not mixed: each of their images is its own partner.
        seed, stage: what all draws are derived from.
        epochs: epochs of the stage, for samplers that change over a stage.
        views: name of the augmentation draws: loaders that differ in it alone show the same images with other
            augmentations.
        share: the micro-batches of each batch that this rank computes.
    """

    def __init__(
        self,
        data: Source,
        sampler: Sampler,
        transform: Normalise,
        *,
        batch: int,
        augment: Augment = Augment(),  # noqa: B008
        shape: tuple[int, int] | None = None,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        cutmix_sampler: Sampler | None = None,
        cutmix_probability: float | None = None,
        seed: int = 0,
        stage: str = "stage1",
        epochs: int = 0,
        views: str = "views",
        share: BatchShare = WHOLE_BATCH,
    ) -> None:
        self.data, self.sampler, self.transform = data, sampler, transform
        self.mixup, self.cutmix, self.cutmix_sampler = mixup, cutmix, cutmix_sampler
        self.cutmix_probability = cutmix_probability or (0.5 if mixup else 1.0)
        self.augment, self.pipeline = augment, AugmentPipeline(transform, augment, shape)
        self.seed, self.stage, self.epochs, self.views, self.share = seed, stage, epochs, views, share
        self.followed: Callable[[int], float] | None = None
        self.size = len(data.labels)
        self.ends = batch_ends(self.size, batch)

    @property
    def device(self) -> torch.device:
        """Where the batches are."""
        return self.data.device

    @property
    def stored_shape(self) -> tuple[int, int]:
        """Height and width of the stored images."""
        raise NotImplementedError

    @property
    def mixes(self) -> bool:
        """Whether images are mixed with those of their partners."""
        return self.mixup > 0 or self.cutmix > 0

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return len(self.ends)

    @property
    def sizes(self) -> list[int]:
        """Images in each batch of an epoch."""
        sizes: list[int] = np.diff(self.ends, prepend=0).tolist()
        return sizes

    def progress(self, number: int) -> float:
        """The share of the stage's epochs that are done before an epoch; 0 if the number of epochs is not known."""
        if self.followed:
            return self.followed(number)
        return number / self.epochs if self.epochs else 0.0

    def follow(self, progress: Callable[[int], float]) -> None:
        """Take the progress from now on from this function."""
        self.followed = progress

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; an epoch always has the same batches."""
        plan = self.plan(number)
        for step in range(self.steps):
            yield self.at(plan, step)

    def micro_batches(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """For each step of an epoch, from step ``first`` on, the micro-batches that this rank computes."""
        plan = self.plan(number)
        for step in range(first, self.steps):
            yield (self.at(plan, step),) if self.share == WHOLE_BATCH else self.micro_batches_at(plan, step)

    def bounds(self, step: int) -> tuple[int, int]:
        """Where the batch of a step starts and ends among the rows of its epoch."""
        return int(self.ends[step - 1]) if step else 0, int(self.ends[step])

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the device where ``assemble`` reads it; by default the host."""
        return self.draw_plan(number)

    def draw_plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the host."""
        order, draws = self._draw_images(self.sampler, "", number)
        if self.cutmix_sampler:
            partners, others = self._draw_images(self.cutmix_sampler, "cutmix ", number)
            order, draws = torch.cat([order, partners]), draws.followed_by(others)
        return EpochPlan(order, draws, *self._draw_mixing(number))

    def _draw_images(self, sampler: Sampler, part: str, number: int) -> tuple[Tensor, Draws]:
        """Which images an epoch shows, and the draws of their augmentations; ``part`` begins the names of all draws."""
        order = sampler.draw(self._generator(f"{part}order", number), self.progress(number))
        draws = self.pipeline.draw(lambda name: self._generator(f"{part}{self.views}{name}", number), self.size)
        return torch.from_numpy(order), draws

    def at(self, plan: EpochPlan, step: int) -> Batch:
        """One batch of a planned epoch."""
        return self.assemble(plan, torch.arange(*self.bounds(step), device=plan.order.device), plan.lambdas[step])

    def micro_batches_at(self, plan: EpochPlan, step: int) -> tuple[Batch, ...]:
        """The micro-batches of a batch that this rank computes; partners may be in other micro-batches."""
        start, end = self.bounds(step)
        whole, made = self.data.labels[plan.order[start:end]], []
        other_whole = self.partner_classes(plan, slice(start, end))
        for first, last in self.share.bounds(start, end):
            rows = torch.arange(first, last, device=plan.order.device)
            micro_batch = self.assemble_micro_batch(plan, rows, plan.lambdas[step])
            made.append(replace(micro_batch, place=first - start, whole=whole, other_whole=other_whole))
        return tuple(made)

    def partner_classes(self, plan: EpochPlan, batch: slice) -> Tensor | None:
        """The classes of all partners of a batch, on the device of the plan, if they are of another sampler."""
        return self.data.labels[plan.order[plan.partners[batch]]] if self.cutmix_sampler else None

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        raise NotImplementedError

    def assemble_micro_batch(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The same for rows whose partners may be elsewhere in their batch."""
        raise NotImplementedError

    def mixed(self, plan: EpochPlan, rows: Tensor | slice, own: Tensor, partners: Tensor, lam: Tensor) -> Tensor:
        """The images at some rows of a batch, mixed with their partners."""
        if not self.cutmix:
            return mix(own, partners, lam)
        boxes = plan.boxes[rows]
        pasted = (boxes[:, 2] > 0)[:, None, None, None]
        return paste(mix(own, partners, torch.where(pasted, 1.0, lam)) if self.mixup else own, partners, boxes)

    def _draw_mixing(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Partners, λ and boxes; a batch that is mixed by mixup has an empty box."""
        if not self.mixes:
            return torch.zeros(0, dtype=torch.int64), torch.ones(self.steps), torch.zeros(0, 4)
        generator, batch_of = self._generator("mixup", number), np.repeat(np.arange(self.steps), self.sizes)
        lambdas = draw_lambdas(generator, self.mixup, self.steps) if self.mixup else np.ones(self.steps, np.float32)
        rows = np.arange(self.size)
        partners = self.size + rows if self.cutmix_sampler else draw_partners(generator, batch_of)
        if not self.cutmix:
            return torch.from_numpy(partners), torch.from_numpy(lambdas), torch.zeros(0, 4)
        generator = self._generator("cutmix", number)
        boxes, outside = draw_boxes(generator, self.cutmix, self.steps, self.pipeline.shape or self.stored_shape)
        pasted = generator.random(self.steps) < self.cutmix_probability
        boxes = (boxes * pasted[:, None])[batch_of]
        if not self.mixup:
            partners = np.where(pasted[batch_of], partners, rows)
        return torch.from_numpy(partners), torch.from_numpy(np.where(pasted, outside, lambdas)), torch.from_numpy(boxes)

    def _generator(self, part: str, number: int) -> np.random.Generator:
        return host_generator(self.seed, self.stage, part, number)
