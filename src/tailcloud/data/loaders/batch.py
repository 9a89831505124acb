"""What a training step receives, from whichever plane of data."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Normalised images [batch, C, H, W] and their classes; when mixed, also the partners' classes and λ.

    ``view`` has the same images varied in another way, ``second`` is a batch of another sampler: for objectives that
    ask for them. A batch that is a piece of a larger one knows the classes of that ``whole`` one, where its own images
    begin at ``place``.
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
        """Images of the batch that this is, or is a piece of."""
        return len(self.target if self.whole is None else self.whole)
