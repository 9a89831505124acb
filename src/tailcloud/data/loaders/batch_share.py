"""Which part of every batch is computed here, where several processes share a run or memory holds no whole batch.

All of them draw the same epoch: the same order, crops, mixing pairs and clouds. A batch is cut into equal pieces, up to
one image; a process computes some of the pieces, one after the other, and the gradients are added with the weight that
each piece has in its batch. So the batches of a run do not depend on how many processes compute them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """Pieces ``first`` … ``first + count − 1`` of the ``of`` pieces that a batch is cut into; by default all of it."""

    first: int = 0
    count: int = 1
    of: int = 1

    def pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where the own pieces of a batch that lies at rows ``start`` … ``end`` start and end.

        >>> Share(first=1, count=1, of=2).pieces(100, 107)
        [(103, 107)]
        """
        cuts = [start + (end - start) * number // self.of for number in range(self.of + 1)]
        return [(cuts[number], cuts[number + 1]) for number in range(self.first, self.first + self.count)]


WHOLE = Share()
