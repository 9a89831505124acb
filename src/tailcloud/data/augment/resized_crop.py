"""Random resized crops: a box of random area and aspect ratio is cropped and resized to a fixed size.

The usual rule: the area is uniform, the ratio of width to height log-uniform. The first of ten tries that fits is
taken; if none fits, the largest centred box with an allowed ratio. Boxes are not rounded to whole pixels.
"""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from pydantic import AfterValidator, Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

TRIES = 10
RATIO = 3 / 4, 4 / 3


def ascending(value: list[float]) -> list[float]:
    """The bounds of a range, the lower one first."""
    if value != sorted(value):
        raise ValueError("should be the lower bound, then the upper one")
    return value


PAIR = Field(min_length=2, max_length=2)
AreaShare = Annotated[float, Field(gt=0, le=1)]
Ratio = Annotated[float, Field(gt=0)]


class ResizedCrop(Augmentation):
    """Random resized crops, mirrored where flips are on.

    Attributes:
        crop_area: random resized crops: the least and the largest share of the image's area that is cut out.
        crop_ratio: the least and the largest width / height of such a crop. Unset: 3/4 to 4/3.
    """

    needs_uncropped: ClassVar[bool] = True

    crop_area: Annotated[list[AreaShare], PAIR, AfterValidator(ascending)] | None = None
    crop_ratio: Annotated[list[Ratio], PAIR, AfterValidator(ascending)] | None = None

    @property
    def ratio(self) -> Sequence[float]:
        """The allowed range of width / height."""
        return self.crop_ratio or RATIO

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether boxes are cropped."""
        return self.crop_area is not None

    def check(self, augment: "Augment") -> None:
        """Crops are taken in one of two ways, and a ratio needs an area."""
        if self.crop_area and augment.crop_padding:
            raise ValueError(
                f"augment.crop_area and augment.crop_padding = {augment.crop_padding} are two ways to crop; set "
                "augment.crop_padding = 0, or leave out augment.crop_area"
            )
        if self.crop_ratio and not self.crop_area:
            raise ValueError(
                "augment.crop_ratio is of random resized crops; set augment.crop_area, for example [0.08, 1.0]"
            )

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``tries`` [count, 10, 2] (share of the area, logarithm of the ratio) and ``places`` [count, 2] in 0 … 1."""
        if self.crop_area is None:
            return {}
        generator = generators(" boxes")
        low = np.array([self.crop_area[0], log(self.ratio[0])], np.float32)
        high = np.array([self.crop_area[1], log(self.ratio[1])], np.float32)
        tries = generator.random((count, TRIES, 2), np.float32)
        tries *= high - low
        tries += low
        return {"tries": tries, "places": generator.random((count, 2), np.float32)}

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:
        """uint8 of any size to floats of the shape that the model expects."""
        boxes = crop_boxes(draws["tries"], draws["places"], info.aspects, self.ratio)
        return crop_and_resize(images, boxes, draws["flips"], info.shape)


def crop_boxes(tries: Tensor, places: Tensor, aspects: Tensor | None, ratio: Sequence[float]) -> Tensor:
    """Left, top, width and height [batch, 4] of a box in each image, as shares of the image's sides.

    ``tries`` [batch, 10, 2] are shares of the area and logarithms of the ratio, ``places`` [batch, 2] the horizontal
    and vertical position in 0 … 1, ``aspects`` [batch] width / height of the original images (1 by default).
    """
    aspect = torch.ones_like(places[:, 0]) if aspects is None else aspects
    area, relative = tries[..., 0], tries[..., 1].exp() / aspect[:, None]  # width to height, in shares of the sides
    width, height = (area * relative).sqrt(), (area / relative).sqrt()
    fits = (width <= 1) & (height <= 1)
    first = fits.int().argmax(dim=1, keepdim=True)
    fitting = torch.cat([width.gather(1, first), height.gather(1, first)], dim=1)
    sizes = torch.where(fits.any(dim=1)[:, None], fitting, _largest(aspect, ratio))
    position = torch.where(fits.any(dim=1)[:, None], places, 0.5)
    return torch.cat([position * (1 - sizes), sizes], dim=1)


def _largest(aspect: Tensor, ratio: Sequence[float]) -> Tensor:
    """Width and height of the largest box with an allowed ratio, as shares of the image's sides."""
    return torch.stack([(ratio[1] / aspect).clamp(max=1), (aspect / ratio[0]).clamp(max=1)], dim=1)


def crop_and_resize(images: Tensor, boxes: Tensor, flips: Tensor, shape: tuple[int, int]) -> Tensor:
    """Boxes of images [batch, H, W, C], resized to ``shape`` as floats and mirrored where ``flips`` is true.

    Bilinear: each output pixel is sampled at the centre of its part of the box.
    """
    down, across = (_centres(side, images.device) for side in shape)
    across = torch.where(flips[:, None], 1 - across, across) * boxes[:, 2:3] + boxes[:, 0:1]
    down = down * boxes[:, 3:4] + boxes[:, 1:2]
    columns = (2 * across - 1)[:, None, :].expand(-1, shape[0], -1)
    rows = (2 * down - 1)[:, :, None].expand(-1, -1, shape[1])
    grid = torch.stack([columns, rows], dim=3)
    floats = images.permute(0, 3, 1, 2).float()
    sampled = F.grid_sample(floats, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.permute(0, 2, 3, 1).contiguous()


def _centres(side: int, device: torch.device) -> Tensor:
    """The centres of so many pixels, as shares of a side."""
    return (torch.arange(side, device=device, dtype=torch.float32) + 0.5) / side
