"""What a training step receives, wherever the images were."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Normalised images [batch, C, H, W] and their classes; when mixed, also the partners' classes and λ.

    ``view`` has the same images with other augmentations, ``second`` is a batch of another sampler, for objectives that
    need them. A micro-batch also has the classes of its ``whole`` batch, in which its own images start at ``place``.
    """

    images: Tensor
    target: Tensor
    other: Tensor | None = None
    lam: Tensor | None = None
    view: Tensor | None = None
    second: "Batch | None" = None
    place: int = 0
    whole: Tensor | None = None

    @property
    def rows(self) -> int:
        """The number of images of the whole batch."""
        return len(self.target if self.whole is None else self.whole)
