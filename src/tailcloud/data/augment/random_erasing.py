"""Random erasing (Zhong et al., AAAI 2020): some images have a box of one random colour."""

from math import log
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.box_mask import box_mask

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

AREA = 0.02, 1 / 3  # share of the image, uniform
RATIO = 0.3, 1 / 0.3  # width / height, log-uniform
CHANNELS = 3  # colours are drawn for; grey images use the first


class RandomErasing(Augmentation):
    """Boxes of 2 % to a third of the image, three times as wide as high or less, or the other way round.

    Attributes:
        random_erasing: the share of images in which a box is filled with a random colour.
    """

    random_erasing: Annotated[float, Field(ge=0, le=1)] = 0.0

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether boxes are erased."""
        return self.random_erasing > 0

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``erased`` [count], ``erased_shapes`` [count, 2] (share of the area, logarithm of the ratio),
        ``erased_places`` [count, 2] in 0 … 1 and ``erased_colours`` [count, 3] in 0 … 255."""
        if not self.random_erasing:
            return {}
        generator = generators(" erasing")
        low, high = (np.array([AREA[end], log(RATIO[end])], np.float32) for end in (0, 1))
        return {
            "erased": generator.random(count) < self.random_erasing,
            "erased_shapes": low + (high - low) * generator.random((count, 2), np.float32),
            "erased_places": generator.random((count, 2), np.float32),
            "erased_colours": 255 * generator.random((count, CHANNELS), np.float32),
        }

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 or floats to floats."""
        height, width = images.shape[1:3]
        boxes = erased_boxes(draws["erased_shapes"], draws["erased_places"], width / height)
        hidden = box_mask(boxes, (height, width)) & draws["erased"][:, None, None]
        colours = draws["erased_colours"][:, None, None, : images.shape[3]]
        return torch.where(hidden[..., None], colours, images.float())


def erased_boxes(shapes: Tensor, places: Tensor, aspect: float) -> Tensor:
    """Left, top, width and height [batch, 4] of a box in images of that width / height, as shares of their sides.

    ``shapes`` [batch, 2] are shares of the area and logarithms of width / height, ``places`` [batch, 2] in 0 … 1.
    """
    area, relative = shapes[:, 0], shapes[:, 1].exp() / aspect
    sizes = torch.stack([(area * relative).sqrt(), (area / relative).sqrt()], dim=1).clamp(max=1)
    return torch.cat([places * (1 - sizes), sizes], dim=1)
