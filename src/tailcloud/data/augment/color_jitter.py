"""Colour jitter: random brightness, contrast and saturation."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from tailcloud.data.augment.base import Arrays, Augmentation, BatchDraws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import LUMINANCE, to_grey

if TYPE_CHECKING:
    from tailcloud.data.augment import Augment

TRIPLE = Field(min_length=3, max_length=3)
Strength = Annotated[float, Field(ge=0, le=4)]


class ColorJitter(Augmentation):
    """Factors of brightness, contrast and saturation, uniform in 1 − strength … 1 + strength, never below 0."""

    color_jitter: Annotated[list[Strength], TRIPLE] | None = None  # strengths of brightness, contrast, saturation

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether colours change."""
        return self.color_jitter is not None

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``factors`` [count, 3]."""
        if self.color_jitter is None:
            return {}
        strengths = np.array(self.color_jitter, np.float32)
        low = np.maximum(1 - strengths, 0)
        return {"factors": low + (1 + strengths - low) * generators(" colours").random((count, 3), np.float32)}

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 or floats to floats."""
        return jittered(images.float(), draws["factors"])


def jittered(images: Tensor, factors: Tensor) -> Tensor:
    """Images [batch, H, W, C] on a scale of 0 … 255 with their colours changed by ``factors`` [batch, 3].

    Always in this order: brightness (towards black), contrast (towards the image's mean grey), saturation (towards the
    grey of each pixel). A factor of 1 changes nothing; values are clamped to 0 … 255 after each. Images of one channel
    have no saturation.
    """
    brightness, contrast, saturation = (factor[:, None, None, None] for factor in factors.unbind(dim=1))
    bright = (brightness * images).clamp(0, 255)
    mean = to_grey(bright).mean(dim=(1, 2, 3), keepdim=True)
    contrasted = torch.lerp(mean, bright, contrast).clamp(0, 255)
    if images.shape[3] != len(LUMINANCE):
        return contrasted
    return torch.lerp(to_grey(contrasted), contrasted, saturation).clamp(0, 255)
