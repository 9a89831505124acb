"""Colour jitter: random brightness, contrast, saturation and hue."""

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
    """Factors of brightness, contrast and saturation, uniform in 1 − strength … 1 + strength, never below 0.

    The hue is turned by ``hue_jitter`` of a whole turn at most. ``color_jitter_share`` of the images are changed.

    Attributes:
        color_jitter: strengths of changes of brightness, contrast and saturation; 0.4 is a factor of 0.6 to 1.4.
        hue_jitter: the largest change of hue, in turns of the colour circle.
        color_jitter_share: the share of images whose colours change.
    """

    color_jitter: Annotated[list[Strength], TRIPLE] | None = None
    hue_jitter: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    color_jitter_share: Annotated[float, Field(gt=0, le=1)] = 1.0

    def is_active(self, augment: "Augment") -> bool:  # noqa: ARG002
        """Whether colours change."""
        return self.color_jitter is not None

    def check(self, augment: "Augment") -> None:  # noqa: ARG002
        """Hue and share are of colour jitter."""
        if self.color_jitter is None and (self.hue_jitter or self.color_jitter_share < 1):
            key = "hue_jitter" if self.hue_jitter else "color_jitter_share"
            raise ValueError(
                f"augment.{key} = {getattr(self, key):g} is of colour jitter; set augment.color_jitter, for example "
                "[0.4, 0.4, 0.4]"
            )

    def draw(self, generators: Generators, count: int) -> Arrays:
        """``factors`` [count, 3], all 1 for an image that stays; with hue also ``turns`` [count], 0 for such one."""
        if self.color_jitter is None:
            return {}
        strengths = np.array(self.color_jitter, np.float32)
        low = np.maximum(1 - strengths, 0)
        factors = low + (1 + strengths - low) * generators(" colours").random((count, 3), np.float32)
        changed = np.ones(count, bool)
        if self.color_jitter_share < 1:
            changed = generators(" jittered").random(count) < self.color_jitter_share
        drawn = {"factors": np.where(changed[:, None], factors, np.float32(1))}
        if self.hue_jitter:
            turns = np.float32(self.hue_jitter) * (2 * generators(" hues").random(count, np.float32) - 1)
            drawn["turns"] = np.where(changed, turns, np.float32(0))
        return drawn

    def apply(self, images: Tensor, draws: BatchDraws, info: ImageInfo) -> Tensor:  # noqa: ARG002
        """uint8 or floats to floats."""
        changed = jittered(images.float(), draws["factors"])
        return turned(changed, draws["turns"]) if self.hue_jitter else changed


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


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Images [batch, H, W, 3] whose hues in HSV are turned by ``turns`` [batch], as shares of a whole turn.

    With value v, chroma c and hue h in sixths of a turn, the channels are v − c · max(0, min(k, 4 − k, 1)) with
    k = (n + h) mod 6 and n = 5, 3, 1. Images of other than three channels have no hue.
    """
    if images.shape[3] != len(LUMINANCE):
        return images
    red, green, blue = images.unbind(dim=3)
    value, least = images.amax(dim=3), images.amin(dim=3)
    chroma = value - least
    safe = torch.where(chroma > 0, chroma, 1.0)
    sixths = torch.where(value == red, (green - blue) / safe, 2 + (blue - red) / safe)
    sixths = torch.where((value == blue) & (value > red) & (value > green), 4 + (red - green) / safe, sixths)
    places = torch.stack([sixths + n for n in (5, 3, 1)], dim=3) + 6 * turns[:, None, None, None]
    k = places.remainder(6)
    weights = torch.minimum(k, 4 - k).clamp(0, 1)
    result = value[..., None] - chroma[..., None] * weights
    return torch.where((turns == 0)[:, None, None, None], images, result)
