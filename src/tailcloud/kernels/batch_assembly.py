"""A batch in one kernel: gather, crop, flip, normalise and mix. ``FUSED_AUGMENTATIONS`` says what it supports."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.resident import ResidentLoader
from tailcloud.kernels.launch import launch

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


class FusedLoader(ResidentLoader):
    """The same batches as those of a ``ResidentLoader``, rounded to ``dtype``."""

    dtype = torch.bfloat16

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        images, labels = self.data.images, self.data.labels
        height, width, channels = images.shape[1:]
        result = torch.empty(len(rows), height, width, channels, dtype=self.dtype, device=images.device)
        target, other = (torch.empty(len(rows), dtype=torch.int64, device=images.device) for _ in range(2))
        mixed = self.mixup > 0
        launch(
            assemble, (len(rows), triton.cdiv(height * width * channels, BLOCK)),
            images, labels, plan.order, plan.draws["corners"], plan.draws["flips"].view(torch.uint8),
            plan.partners if mixed else rows, lam, rows, self.transform.factor, self.transform.offset,
            result, target, other,
            H=height, W=width, C=channels, PADDING=self.augment.crop_padding, MIXED=mixed, BLOCK=BLOCK,
        )  # fmt: skip
        batch = result.permute(0, 3, 1, 2)
        return Batch(batch, target, other, lam) if mixed else Batch(batch, target)
