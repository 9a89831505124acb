"""AutoAugment (Cubuk et al., CVPR 2019): a pair of operations for each image, from a policy that was searched.

Both policies are those of the paper: 25 pairs, equally likely; each operation of a pair has a probability and a level
of 0 … 9. They were searched with the labels of balanced CIFAR-10 and of ImageNet, so results with them use these.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import ONE_SIGN, OPERATIONS, apply_in_turn

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

# The strength of each operation at its highest level; translations are 150 of 331 pixels.
STRONGEST = {
    "identity": 0.0, "shear_x": 0.3, "shear_y": 0.3, "translate_x": 150 / 331, "translate_y": 150 / 331, "rotate": 30.0,
    "brightness": 0.9, "color": 0.9, "contrast": 0.9, "sharpness": 0.9, "posterize": 4.0, "solarize": 256.0,
    "autocontrast": 0.0, "equalize": 0.0, "invert": 0.0,
}  # fmt: skip
HIGHEST_LEVEL = 9
FILL = 128.0  # what comes in from outside of an image

# Each pair: operation, probability, level; operation, probability, level.
POLICIES = {
    "cifar": """
        invert 0.1 7; contrast 0.2 6
        rotate 0.7 2; translate_x 0.3 9
        sharpness 0.8 1; sharpness 0.9 3
        shear_y 0.5 8; translate_y 0.7 9
        autocontrast 0.5 8; equalize 0.9 2
        shear_y 0.2 7; posterize 0.3 7
        color 0.4 3; brightness 0.6 7
        sharpness 0.3 9; brightness 0.7 9
        equalize 0.6 5; equalize 0.5 1
        contrast 0.6 7; sharpness 0.6 5
        color 0.7 7; translate_x 0.5 8
        equalize 0.3 7; autocontrast 0.4 8
        translate_y 0.4 3; sharpness 0.2 6
        brightness 0.9 6; color 0.2 8
        solarize 0.5 2; invert 0.0 3
        equalize 0.2 0; autocontrast 0.6 0
        equalize 0.2 8; equalize 0.6 4
        color 0.9 9; equalize 0.6 6
        autocontrast 0.8 4; solarize 0.2 8
        brightness 0.1 3; color 0.7 0
        solarize 0.4 5; autocontrast 0.9 3
        translate_y 0.9 9; translate_y 0.7 9
        autocontrast 0.9 2; solarize 0.8 3
        equalize 0.8 8; invert 0.1 3
        translate_y 0.7 9; autocontrast 0.9 1
    """,
    "imagenet": """
        posterize 0.4 8; rotate 0.6 9
        solarize 0.6 5; autocontrast 0.6 5
        equalize 0.8 8; equalize 0.6 3
        posterize 0.6 7; posterize 0.6 6
        equalize 0.4 7; solarize 0.2 4
        equalize 0.4 4; rotate 0.8 8
        solarize 0.6 3; equalize 0.6 7
        posterize 0.8 5; equalize 1.0 2
        rotate 0.2 3; solarize 0.6 8
        equalize 0.6 8; posterize 0.4 6
        rotate 0.8 8; color 0.4 0
        rotate 0.4 9; equalize 0.6 2
        equalize 0.0 7; equalize 0.8 8
        invert 0.6 4; equalize 1.0 8
        color 0.6 4; contrast 1.0 8
        rotate 0.8 8; color 1.0 2
        color 0.8 8; solarize 0.8 7
        sharpness 0.4 7; invert 0.6 8
        shear_x 0.6 5; equalize 1.0 9
        color 0.4 0; equalize 0.6 3
        equalize 0.4 7; solarize 0.2 4
        solarize 0.6 5; autocontrast 0.6 5
        invert 0.6 4; equalize 1.0 8
        color 0.6 4; contrast 1.0 8
        equalize 0.8 8; equalize 0.6 3
    """,
}


class AutoAugment(Augmentation):
    """A pair of operations for each image, from the policy of that name.

    Attributes:
        auto_augment: AutoAugment with the policy that was published for CIFAR-10 or for ImageNet.
    """

    auto_augment: Literal["cifar", "imagenet"] | None = None

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether images are changed."""
        return self.auto_augment is not None

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``auto_operations`` [count, 2], positions in ``OPERATIONS``, and ``auto_strengths`` [count, 2]."""
        if self.auto_augment is None:
            return {}
        numbers, probabilities, strengths = policy(self.auto_augment)
        generator = generators(" auto augment")
        pairs = generator.integers(0, len(numbers), count)
        taken = generator.random((count, 2)) < probabilities[pairs]
        signs = np.where(np.isin(numbers[pairs], ONE_SIGN), 1, generator.choice([-1, 1], (count, 2)))
        return {
            "auto_operations": np.where(taken, numbers[pairs], OPERATIONS.index("identity")).astype(np.uint8),
            "auto_strengths": (signs * strengths[pairs]).astype(np.float32),
        }

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:
        """uint8 or floats to floats."""
        operations, strengths = draws["auto_operations"], draws["auto_strengths"]
        return apply_in_turn(images.float(), operations, strengths, fill=FILL, apply=info.operations)


def policy(name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Positions in ``OPERATIONS``, probabilities and strengths of a policy's pairs, each [25, 2]."""
    pairs = [[entry.split() for entry in line.split(";")] for line in POLICIES[name].strip().splitlines()]
    numbers = np.array([[OPERATIONS.index(entry[0]) for entry in pair] for pair in pairs])
    probabilities = np.array([[float(entry[1]) for entry in pair] for pair in pairs])
    strengths = np.array([[STRONGEST[entry[0]] * int(entry[2]) / HIGHEST_LEVEL for entry in pair] for pair in pairs])
    return numbers, probabilities, np.where(numbers == OPERATIONS.index("posterize"), strengths.round(), strengths)
