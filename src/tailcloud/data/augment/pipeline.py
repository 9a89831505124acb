"""From stored pixels to the images of a training step: all active augmentations, then normalisation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tailcloud.data.augment import Augment
from tailcloud.data.augment.base import ALL_ROWS, Augmentation, BatchDraws, Draws, Generators, ImageInfo
from tailcloud.data.augment.image_ops import ImageOperations, apply_operations
from tailcloud.data.augment.normalize import Normalise


@dataclass(frozen=True)
class AugmentPipeline:
    """Applies the augmentations of an ``[augment]`` table to batches, on the device.

    ``shape`` is the height and width that the model expects; by default that of the stored images. ``operations``
    computes the operations of a policy.
    """

    transform: Normalise
    augment: Augment
    shape: tuple[int, int] | None = None
    operations: ImageOperations = apply_operations

    def draw(self, generators: Generators, count: int) -> Draws:
        """The draws for so many images, on the host; ``generators(part)`` gives each part its own generator."""
        arrays = {
            name: array for each in self.augment.augmentations for name, array in each.draw(generators, count).items()
        }
        return Draws({name: torch.from_numpy(array) for name, array in arrays.items()})

    def __call__(
        self, images: Tensor, draws: Draws, rows: Tensor | slice = ALL_ROWS, aspects: Tensor | None = None
    ) -> Tensor:
        """Normalised floats [batch, C, H, W] of uint8 images [batch, H, W, C], with the draws of these ``rows``.

        ``aspects`` [batch] are width / height of the original images; 1 by default.
        """
        return self.transform(self.augmented(images, draws, rows, aspects))

    def augmented(
        self,
        images: Tensor,
        draws: Draws,
        rows: Tensor | slice,
        aspects: Tensor | None = None,
        *,
        without: tuple[type[Augmentation], ...] = (),
    ) -> Tensor:
        """The same before normalisation: images [batch, H, W, C], after all active augmentations but some kinds."""
        info = ImageInfo(self.shape or (images.shape[1], images.shape[2]), aspects, self.operations)
        for each in self.augment.active:
            if not isinstance(each, without):
                images = each.apply(images, BatchDraws(draws, rows), info)
        return images
