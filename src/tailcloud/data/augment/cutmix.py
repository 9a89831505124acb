"""CutMix (Yun et al., ICCV 2019): a box of each image is replaced by that of its partner, one box per batch.

The box has the share 1 − λ of the area, λ ~ Beta(α, α), and its centre is uniform. What lies outside of the image is
cut off, so the labels are mixed by the share of pixels that an image keeps.

Partners are of the same batch, or images of another sampler: with a class-balanced one, rare classes are pasted into
frequent ones (CMO, Park et al., CVPR 2022, and ConCutMix, Pan et al., 2024).
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment.box_mask import box_mask


def draw_boxes(
    generator: np.random.Generator, alpha: float, steps: int, shape: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A box of whole pixels for each step of an epoch, in images of that height and width, and the share outside of it.

    Boxes [steps, 4] are left, top, width and height as shares of the image's sides.
    """
    sides = np.array(shape[::-1])
    size = (np.sqrt(1 - generator.beta(alpha, alpha, steps))[:, None] * sides).astype(np.int64)
    start = generator.integers(0, sides, (steps, 2)) - size // 2
    start, end = start.clip(0, sides), (start + size).clip(0, sides)
    boxes = np.concatenate([start, end - start], axis=1) / np.tile(sides, 2)
    return boxes.astype(np.float32), (1 - boxes[:, 2] * boxes[:, 3]).astype(np.float32)


def pasted_share(alpha: float) -> float:
    """The mean share of an image that is its partner's: E[(r − r²/4)²] with r² ~ Beta(α, α), for large images.

    r is the side of a box; r − r²/4 is what is left of it on average where the border cuts it off.

    >>> round(pasted_share(1.0), 4)
    0.3208
    """
    once, higher, twice = (_beta_moment(alpha, power) for power in (1.0, 1.5, 2.0))
    return once - higher / 2 + twice / 16


def _beta_moment(alpha: float, power: float) -> float:
    """E[u^power] of u ~ Beta(α, α)."""
    return math.exp(
        math.lgamma(alpha + power) + math.lgamma(2 * alpha) - math.lgamma(alpha) - math.lgamma(2 * alpha + power)
    )


def paste(images: Tensor, partners: Tensor, boxes: Tensor) -> Tensor:
    """Images [batch, C, H, W] with the boxes [batch, 4] of their partners."""
    return torch.where(box_mask(boxes, (images.shape[2], images.shape[3]))[:, None], partners, images)
