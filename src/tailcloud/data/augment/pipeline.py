"""From stored pixels to the images that a training step sees: how they are varied, and the draws for that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment.color_jitter import jittered
from tailcloud.data.augment.crop_flip import crop_and_flip
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.resized_crop import TRIES, boxes, cut_out
from tailcloud.data.loaders.epoch_plan import Draws

RATIO = 3 / 4, 4 / 3
EVERY = slice(None)


@dataclass(frozen=True)
class Views:
    """How training images are varied before they are normalised: device code on whole batches.

    Either crops of the old size out of an image with a black border (``crop_padding``) or random resized crops
    (``area``: least and largest share; ``ratio`` of width to height), mirroring (``flip``), then colours (``jitter``:
    how much brightness, contrast and saturation change at most). ``shape`` (height, width) is that of random resized
    crops; by default that of the stored images.
    """

    transform: Normalise
    crop_padding: int = 0
    flip: bool = False
    area: Sequence[float] | None = None
    ratio: Sequence[float] = RATIO
    jitter: Sequence[float] | None = None
    shape: tuple[int, int] | None = None

    def draw(self, generator: Callable[[str], np.random.Generator], count: int) -> Draws:
        """The draws for so many images, on the host; ``generator(part)`` gives each part a generator of its own."""
        first = generator("")
        corners = first.integers(0, 2 * self.crop_padding, (count, 2), endpoint=True)
        flips = first.random(count) < (0.5 if self.flip else 0.0)
        some = {"corners": corners, "flips": flips, **self._boxes(generator, count), **self._factors(generator, count)}
        return Draws(**{name: torch.from_numpy(array) for name, array in some.items()})

    def _boxes(self, generator: Callable[[str], np.random.Generator], count: int) -> dict[str, NDArray[np.float32]]:
        if self.area is None:
            return {}
        boxing = generator(" boxes")
        low = np.array([self.area[0], log(self.ratio[0])], np.float32)
        high = np.array([self.area[1], log(self.ratio[1])], np.float32)
        tries = boxing.random((count, TRIES, 2), np.float32)
        tries *= high - low
        tries += low
        return {"tries": tries, "places": boxing.random((count, 2), np.float32)}

    def _factors(self, generator: Callable[[str], np.random.Generator], count: int) -> dict[str, NDArray[np.float32]]:
        if self.jitter is None:
            return {}
        strengths = np.array(self.jitter, np.float32)
        low = np.maximum(1 - strengths, 0)
        return {"factors": low + (1 + strengths - low) * generator(" colours").random((count, 3), np.float32)}

    def __call__(
        self, images: Tensor, draws: Draws, rows: Tensor | slice = EVERY, aspects: Tensor | None = None
    ) -> Tensor:
        """Normalised floats [batch, C, H, W] of uint8 images [batch, H, W, C], varied as drawn for these ``rows``.

        ``aspects`` [batch] are width / height of the pictures that were squashed into these images; 1 by default.
        """
        if self.area is not None:
            found = boxes(draws.tries[rows], draws.places[rows], aspects, self.ratio)
            images = cut_out(images, found, draws.flips[rows], self.shape or (images.shape[1], images.shape[2]))
        elif self.crop_padding or self.flip:
            images = crop_and_flip(images, draws.corners[rows], draws.flips[rows], self.crop_padding)
        if self.jitter is not None:
            images = jittered(images.float(), draws.factors[rows])
        return self.transform(images)
