"""Cutout (DeVries & Taylor, 2017): a black square at a random place of each image."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.box_mask import box_mask

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment


class Cutout(Augmentation):
    """A square whose centre is any pixel of the image; what lies outside of the image is cut off.

    Attributes:
        cutout: the side, in pixels, of a square that is erased in each image; 0 disables it.
    """

    cutout: Annotated[int, Field(ge=0, le=1024)] = 0

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether squares are cut out."""
        return self.cutout > 0

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``holes`` [count, 2]: the horizontal and vertical place of the centre in 0 … 1."""
        return {"holes": generators(" cutout").random((count, 2), np.float32)} if self.cutout else {}

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 to uint8, floats to floats."""
        return cut_out(images, draws["holes"], self.cutout)


def cut_out(images: Tensor, holes: Tensor, side: int) -> Tensor:
    """Images [batch, H, W, C] with a black square around a pixel: ``holes`` [batch, 2] in 0 … 1 (column, row)."""
    height, width = images.shape[1:3]
    left, top = ((hole * size).floor() - side // 2 for hole, size in zip(holes.unbind(1), (width, height), strict=True))
    sides = torch.ones_like(left) * side
    boxes = torch.stack([left / width, top / height, sides / width, sides / height], dim=1)
    return torch.where(box_mask(boxes, (height, width))[..., None], 0, images)
