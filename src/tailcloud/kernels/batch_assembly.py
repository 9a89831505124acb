"""Batches in few kernels: one that gathers, crops, flips, normalises and mixes.

With other augmentations, it gathers, crops and flips; each operation of AutoAugment and the like is a kernel more
(``image_operations``), and so are Cutout and normalisation together. The rest is PyTorch's.
"""

from dataclasses import replace
from typing import Unpack

import torch
import triton
from torch import Tensor

from tailcloud.data.augment.crop_flip import CropFlip
from tailcloud.data.augment.cutout import Cutout
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import LoaderOptions
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.kernels.batch_kernels import assemble, normalise
from tailcloud.kernels.image_operations import apply_operations
from tailcloud.kernels.launch import launch
from tailcloud.sampling import Sampler

BLOCK = 1024


class FusedLoader(ResidentLoader):
    """The same batches as those of a ``ResidentLoader``; in ``dtype`` where a kernel of this file writes the last."""

    dtype = torch.bfloat16

    def __init__(
        self, data: ResidentImages, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]
    ) -> None:
        super().__init__(data, sampler, transform, **options)
        self.pipeline = replace(self.pipeline, operations=apply_operations)
        shape, device = transform.factor.shape, transform.factor.device
        self.plain = torch.ones(shape, device=device), torch.zeros(shape, device=device)  # levels stay

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
        result = images.new_empty(images.shape, dtype=torch.float32 if self.mixes else self.dtype)
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
