"""CutMix (Yun et al., ICCV 2019): a box of each image is replaced by that of its partner, one box per batch.

The box has the share 1 − λ of the area, λ ~ Beta(α, α), and its centre is uniform. What lies outside of the image is
cut off, so the labels are mixed by the share of pixels that an image keeps.
"""

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


def paste(images: Tensor, partners: Tensor, boxes: Tensor) -> Tensor:
    """Images [batch, C, H, W] with the boxes [batch, 4] of their partners."""
    return torch.where(box_mask(boxes, (images.shape[2], images.shape[3]))[:, None], partners, images)
