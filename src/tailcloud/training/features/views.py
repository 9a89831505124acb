"""The views of an image by number: how each of them is made of the stored pixels.

View 0 is the image as it is evaluated, view 1 its mirror image if the recipe flips. Further views are augmented. Their
draws depend on the number of the view alone, not on the image or the seed, so that features of them can be kept: all
images are cropped at the same place in view 2, and at another place in view 3.
"""

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.pipeline import AugmentPipeline
from tailcloud.randomness import host_generator


@dataclass(frozen=True)
class View:
    """One view; ``key`` is the same for the same view in every run."""

    number: int = 0
    mirrored: bool = False
    augment: Augment | None = None

    @property
    def key(self) -> str:
        """What makes the view: "plain", "mirrored", or its number and augmentation."""
        if self.augment is None:
            return "mirrored" if self.mirrored else "plain"
        return f"{self.number} {json.dumps(self.augment.model_dump(exclude_defaults=True), sort_keys=True)}"

    def __call__(self, pixels: Tensor, transform: Normalise) -> Tensor:
        """Normalised floats [batch, C, H, W] of this view of uint8 images [batch, H, W, C]."""
        if self.augment is None:
            return transform(pixels.flip(2) if self.mirrored else pixels)
        pipeline = AugmentPipeline(transform, self.augment)
        draws = pipeline.draw(lambda part: host_generator(0, f"view{part}", self.number), 1).to(pixels.device)
        first = torch.zeros(len(pixels), dtype=torch.int64, device=pixels.device)  # one draw for all images
        return pipeline(pixels, draws, first)


def numbered_views(augment: Augment, count: int) -> list[View]:
    """The first ``count`` views; fewer if the augmentations make no more different ones."""
    views = [View(), *([View(1, mirrored=True)] if augment.flip else [])]
    if Augment(**{**augment.model_dump(), "flip": False}).active:
        views += [View(number, augment=augment) for number in range(len(views), count)]
    return views[:count]
