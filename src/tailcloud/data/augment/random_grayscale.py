"""Random greyscale: some images lose their colours."""

from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import to_grey

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment


class RandomGrayscale(Augmentation):
    """All three channels of some images become their grey; images of other than three channels stay.

    Attributes:
        random_grayscale: the share of images that become grey.
    """

    random_grayscale: Annotated[float, Field(ge=0, le=1)] = 0.0

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether images become grey."""
        return self.random_grayscale > 0

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``grey`` [count]."""
        if not self.random_grayscale:
            return {}
        return {"grey": generators(" grayscale").random(count) < self.random_grayscale}

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 or floats to floats."""
        floats = images.float()
        return torch.where(draws["grey"][:, None, None, None], to_grey(floats), floats)
