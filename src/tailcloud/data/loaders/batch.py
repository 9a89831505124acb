"""A batch, which is what a training step receives, and the micro-batches into which it is cut."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Normalised images [batch, C, H, W] and their classes; when mixed, also the partners' classes and λ.

    Each of ``views`` has the same images with other augmentations, ``second`` is a batch of another sampler, for
    objectives that need them. A micro-batch also has the classes of its ``whole`` batch, in which its own images start
    at ``place``; ``other_whole`` are those of all partners, if these are of another sampler. ``teacher_logits`` are
    those of all images, if they were computed before the step.
    """

    images: Tensor
    target: Tensor
    other: Tensor | None = None
    lam: Tensor | None = None
    views: tuple[Tensor, ...] = ()
    second: "Batch | None" = None
    place: int = 0
    whole: Tensor | None = None
    other_whole: Tensor | None = None
    teacher_logits: Tensor | None = None

    @property
    def rows(self) -> int:
        """The number of images of the whole batch."""
        return len(self.target if self.whole is None else self.whole)


@dataclass(frozen=True)
class BatchShare:
    """Micro-batches ``first`` … ``first + count − 1`` of the ``of`` that a batch is cut into; by default all of it."""

    first: int = 0
    count: int = 1
    of: int = 1

    def bounds(self, start: int, end: int) -> list[tuple[int, int]]:
        """Start and end of each micro-batch of this share, for a batch at rows ``start`` … ``end``.

        >>> BatchShare(first=1, count=1, of=2).bounds(100, 107)
        [(103, 107)]
        """
        cuts = [start + (end - start) * number // self.of for number in range(self.of + 1)]
        return [(cuts[number], cuts[number + 1]) for number in range(self.first, self.first + self.count)]


WHOLE_BATCH = BatchShare()
