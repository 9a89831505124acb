"""Which micro-batches of every batch a rank computes, with several ranks or with gradient accumulation.

All ranks draw the same epoch: the same order, crops, mixing pairs and noise. Every batch is cut into micro-batches of
equal size, up to one image. A rank computes its share of them one after the other, and gradients are added with the
weight that each micro-batch has in its batch. So the batches of a run do not depend on the number of ranks.
"""

from dataclasses import dataclass


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
