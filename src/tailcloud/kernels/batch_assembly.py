"""Batches in few kernels: one that gathers, crops, flips, normalises and mixes.

With other augmentations, it gathers, crops and flips; each operation of AutoAugment and the like is a kernel more
(``image_operations``), and so are Cutout and normalisation together. The rest is PyTorch's.
"""

from dataclasses import replace
from typing import Unpack

import torch
import triton
import triton.language as tl
from torch import Tensor

from tailcloud.data.augment.crop_flip import CropFlip
from tailcloud.data.augment.cutout import Cutout
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import LoaderOptions
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.kernels.image_operations import apply_operations
from tailcloud.kernels.launch import launch
from tailcloud.sampling import Sampler

BLOCK = 1024


@triton.jit
def _view(
    images, order, corners, flips, factor, offset, position, place,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PADDING: tl.constexpr,
):  # fmt: skip
    """Some numbers of an augmented image: padded with black, cropped, flipped, normalised."""
    channel, column, row = place % C, place // C % W, place // (C * W)
    column = tl.where(tl.load(flips + position) != 0, W - 1 - column, column)
    row += tl.load(corners + 2 * position) - PADDING
    column += tl.load(corners + 2 * position + 1) - PADDING
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W) & (place < H * W * C)
    source = images + tl.load(order + position) * (H * W * C) + (row * W + column) * C + channel
    pixel = tl.load(source, inside, 0).to(tl.float32)
    return tl.load(offset + channel) + pixel * tl.load(factor + channel)


@triton.jit
def assemble(
    images, labels, order, corners, flips, partners, lam, rows, factor, offset, result, target, other,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PADDING: tl.constexpr, MIXED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one image of a batch, and its class."""
    number, place = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    position = tl.load(rows + number)
    value = _view(images, order, corners, flips, factor, offset, position, place, H, W, C, PADDING)
    first = tl.program_id(1) == 0
    tl.store(target + number, tl.load(labels + tl.load(order + position)), first)
    if MIXED:
        partner, share = tl.load(partners + position), tl.load(lam)
        second = _view(images, order, corners, flips, factor, offset, partner, place, H, W, C, PADDING)
        value = share * value + (1 - share) * second
        tl.store(other + number, tl.load(labels + tl.load(order + partner)), first)
    tl.store(result + number * (H * W * C) + place, value.to(result.dtype.element_ty), place < H * W * C)


@triton.jit
def normalise(
    images, holes, rows, factor, offset, result,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one image, with a black square, normalised."""
    number, place = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel, column, row, here = place % C, place // C % W, place // (C * W), place < H * W * C
    value = tl.load(images + number * (H * W * C) + place, here, 0.0)
    if SIDE > 0:
        hole = holes + 2 * tl.load(rows + number)
        left = tl.floor(tl.load(hole) * W).to(tl.int32) - SIDE // 2
        top = tl.floor(tl.load(hole + 1) * H).to(tl.int32) - SIDE // 2
        across, down = (column >= left) & (column < left + SIDE), (row >= top) & (row < top + SIDE)
        value = tl.where(across & down, 0.0, value)
    value = tl.load(offset + channel) + value * tl.load(factor + channel)
    tl.store(result + number * (H * W * C) + place, value.to(result.dtype.element_ty), here)


class FusedLoader(ResidentLoader):
    """The same batches as those of a ``ResidentLoader``; in ``dtype`` where a kernel of this file writes the last."""

    dtype = torch.bfloat16

    def __init__(
        self, data: ResidentImages, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]
    ) -> None:
        super().__init__(data, sampler, transform, **options)
        self.pipeline = replace(self.pipeline, operations=apply_operations)
        self.plain = torch.ones_like(transform.factor), torch.zeros_like(transform.offset)  # levels stay

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        if self.cutmix or any(not isinstance(each, CropFlip) for each in self.augment.active):
            return super().assemble(plan, rows, lam)
        batch, target, other = self._cropped(
            plan, rows, lam, (self.transform.factor, self.transform.offset), self.dtype, mixed=self.mixup > 0
        )
        floats = batch.permute(0, 3, 1, 2)
        return Batch(floats, target, other, lam) if self.mixup else Batch(floats, target)

    def rows(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The augmented images at some rows of an epoch, not mixed, and their classes."""
        if self.augment.crop_area is not None:
            return super().rows(plan, rows)
        images, target, _ = self._cropped(plan, rows, rows, self.plain, torch.float32, mixed=False)
        ends_with_hole = isinstance(self.augment.active[-1], Cutout) if self.augment.active else False
        fused = (CropFlip, Cutout) if ends_with_hole else (CropFlip,)
        images = self.pipeline.augmented(images, plan.draws, rows, without=fused)
        return self._normalised(plan, rows, images, self.augment.cutout if ends_with_hole else 0), target

    def _normalised(self, plan: EpochPlan, rows: Tensor, images: Tensor, side: int) -> Tensor:
        """With a hole of that side each, if it is not 0; exact if they are still to be mixed."""
        images = images.float().contiguous()
        result = torch.empty_like(images, dtype=torch.float32 if self.mixes else self.dtype)
        height, width, channels = images.shape[1:]
        launch(
            normalise, (len(rows), triton.cdiv(height * width * channels, BLOCK)),
            images, plan.draws["holes"] if side else rows, rows, self.transform.factor, self.transform.offset, result,
            H=height, W=width, C=channels, SIDE=side, BLOCK=BLOCK,
        )  # fmt: skip
        return result.permute(0, 3, 1, 2)

    def _cropped(
        self,
        plan: EpochPlan,
        rows: Tensor,
        lam: Tensor,
        scale: tuple[Tensor, Tensor],
        dtype: torch.dtype,
        *,
        mixed: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Images [batch, H, W, C], cropped, flipped, scaled by a factor and an offset, mixed; both classes of each."""
        images, labels = self.data.images, self.data.labels
        height, width, channels = images.shape[1:]
        result = torch.empty(len(rows), height, width, channels, dtype=dtype, device=images.device)
        target, other = (torch.empty(len(rows), dtype=torch.int64, device=images.device) for _ in range(2))
        launch(
            assemble, (len(rows), triton.cdiv(height * width * channels, BLOCK)),
            images, labels, plan.order, plan.draws["corners"], plan.draws["flips"].view(torch.uint8),
            plan.partners if mixed else rows, lam, rows, *scale, result, target, other,
            H=height, W=width, C=channels, PADDING=self.augment.crop_padding, MIXED=mixed, BLOCK=BLOCK,
        )  # fmt: skip
        return result, target, other
