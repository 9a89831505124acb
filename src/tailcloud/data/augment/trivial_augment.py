"""TrivialAugment (Müller & Hutter, ICCV 2021): one random operation of random strength for each image.

The wide space of the paper: 14 operations, equally likely, and 31 strengths from 0 to the largest. Affine maps are
bilinear, and black comes in from outside.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import ONE_SIGN, OPERATIONS

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

STRONGEST = {
    "identity": 0.0, "shear_x": 0.99, "shear_y": 0.99, "translate_x": 1.0, "translate_y": 1.0, "rotate": 135.0,
    "brightness": 0.99, "color": 0.99, "contrast": 0.99, "sharpness": 0.99, "posterize": 6.0, "solarize": 256.0,
    "autocontrast": 0.0, "equalize": 0.0,
}  # fmt: skip
STRENGTHS = 31
FILL = 0.0  # what comes in from outside of an image
TRANSLATION = 32  # pixels at most, and never more than the image has


class TrivialAugment(Augmentation):
    """One operation of ``STRONGEST`` for each image.

    Attributes:
        trivial_augment: TrivialAugment: one operation of random strength for each image.
    """

    trivial_augment: bool = False

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether images are changed."""
        return self.trivial_augment

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``trivial_operations`` [count], positions in ``OPERATIONS``, and ``trivial_strengths`` [count]."""
        if not self.trivial_augment:
            return {}
        generator = generators(" trivial augment")
        numbers = np.array([OPERATIONS.index(name) for name in STRONGEST])
        chosen, levels = generator.integers(0, len(numbers), count), generator.integers(0, STRENGTHS, count)
        signs = np.where(np.isin(numbers[chosen], ONE_SIGN), 1, generator.choice([-1, 1], count))
        strongest = np.array(list(STRONGEST.values()))[chosen]
        return {
            "trivial_operations": numbers[chosen].astype(np.uint8),
            "trivial_strengths": (signs * levels * strongest / (STRENGTHS - 1)).astype(np.float32),
        }

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:
        """uint8 or floats to floats."""
        operations, strengths = draws["trivial_operations"], draws["trivial_strengths"]
        for name, side in (("translate_x", images.shape[2]), ("translate_y", images.shape[1])):
            share = min(TRANSLATION / side, 1)
            strengths = torch.where(operations == OPERATIONS.index(name), share * strengths, strengths)
        return info.operations(images.float(), operations, strengths, fill=FILL)
