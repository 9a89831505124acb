"""Random crops of a padded image, and random horizontal flips."""

from typing import TYPE_CHECKING, Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment


class CropFlip(Augmentation):
    """Crops of the stored size from an image with a black border, and flips of every second image.

    Attributes:
        crop_padding: pixels of black border on each side, from which a crop of the old size is taken.
        flip: whether every second image, at random, is mirrored.
    """

    crop_padding: Annotated[int, Field(ge=0, le=64)] = 0
    flip: bool = False

    def is_active(self, augment: "Augment") -> bool:
        """Random resized crops flip while they sample, so nothing is left to do here."""
        return (self.crop_padding > 0 or self.flip) and augment.crop_area is None

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``corners`` [count, 2] and ``flips`` [count] from one generator, always: fused kernels and resized crops
        use them too."""
        generator = generators("")
        corners = generator.integers(0, 2 * self.crop_padding, (count, 2), endpoint=True)
        return {"corners": corners, "flips": generator.random(count) < (0.5 if self.flip else 0.0)}

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 to uint8."""
        return crop_and_flip(images, draws["corners"], draws["flips"], self.crop_padding)


def crop_and_flip(images: Tensor, corners: Tensor, flips: Tensor, padding: int) -> Tensor:
    """Pad with black, crop the stored size at ``corners``, and mirror the images where ``flips`` is true.

    images [batch, H, W, C] uint8; corners [batch, 2] (row, column) in 0 … 2·padding; flips [batch] bool.
    """
    batch, height, width, _ = images.shape
    device = images.device
    padded = F.pad(images, (0, 0, padding, padding, padding, padding)) if padding else images
    across = torch.arange(width, device=device)
    across = torch.where(flips[:, None], width - 1 - across, across)
    rows = corners[:, :1] + torch.arange(height, device=device)
    columns = corners[:, 1:] + across
    which = torch.arange(batch, device=device)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]]
