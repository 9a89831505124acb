"""RandAugment (Cubuk et al., NeurIPS 2020): some random operations for each image, all of one level.

Operations are drawn with replacement from 14, equally likely. Strengths are those of AutoAugment at a level of 10, in
proportion; the sign is random. Posterize and solarize get stronger with the level, too.
"""

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.auto_augment import FILL, STRONGEST
from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import ONE_SIGN, OPERATIONS, apply_in_turn

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

NAMES = tuple(name for name in OPERATIONS if name != "invert")
USUAL_LEVEL = 9
LEVEL = 10  # the level at which operations have their strength of STRONGEST


class RandAugment(Augmentation):
    """``rand_augment`` operations of the level ``rand_augment_level`` for each image.

    Attributes:
        rand_augment: operations of RandAugment for each image; 0 disables it.
        rand_augment_level: how strong the operations of RandAugment are.
    """

    rand_augment: Annotated[int, Field(ge=0, le=8)] = 0
    rand_augment_level: Annotated[int, Field(ge=0, le=LEVEL)] = USUAL_LEVEL

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether images are changed."""
        return self.rand_augment > 0

    def check(self, augment: "Augment") -> None:  # noqa: ARG002
        """A level needs operations."""
        if self.rand_augment_level != USUAL_LEVEL and not self.rand_augment:
            raise ValueError("augment.rand_augment_level is of RandAugment; set augment.rand_augment, for example 2")

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``rand_operations``, positions in ``OPERATIONS``, and ``rand_strengths``: [count, operations] each."""
        if not self.rand_augment:
            return {}
        generator, shape = generators(" rand augment"), (count, self.rand_augment)
        numbers = np.array([OPERATIONS.index(name) for name in NAMES])[generator.integers(0, len(NAMES), shape)]
        signs = np.where(np.isin(numbers, ONE_SIGN), 1, generator.choice([-1, 1], shape))
        strongest = np.array([STRONGEST[name] for name in OPERATIONS])
        return {
            "rand_operations": numbers.astype(np.uint8),
            "rand_strengths": (signs * strongest[numbers] * self.rand_augment_level / LEVEL).astype(np.float32),
        }

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:
        """uint8 or floats to floats."""
        operations, strengths = draws["rand_operations"], draws["rand_strengths"]
        return apply_in_turn(images.float(), operations, strengths, fill=FILL, apply=info.operations)
