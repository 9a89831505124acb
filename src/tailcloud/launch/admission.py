"""How many runs are in flight on one GPU: more as long as that trains faster, and as memory holds them.

The first run goes ahead alone: it compiles what all of them need, and shows how much memory one takes. Then there are
eight at once, because every change of company costs a preparation, and after that twice as many at a time.
"""

from collections.abc import Callable
from threading import Condition

import torch

WORTHWHILE = 1.1  # passes per second, against half as many runs
AT_ONCE = 8  # runs that join the first one, if memory holds them
SPARE = 0.9  # the share of free memory that may be promised


class Admission:
    """The door of a fleet. A run waits until it may ``enter``, reports its epochs, and leaves.

    ``room`` says how many runs like those inside (their number is its argument) the memory holds; a ``fixed`` number of
    places never changes.
    """

    def __init__(self, room: Callable[[int], int], fixed: int | None = None) -> None:
        self.room, self.limit, self.inside = room, fixed or 1, 0
        self.growing, self.best = fixed is None, (0.0, 1)  # the best rate so far, and with how many
        self.seconds: dict[int, float | None] = {}  # of the last epoch that a run trained in this company
        self.door = Condition()

    def enter(self) -> None:
        """Wait for a place."""
        with self.door:
            self.door.wait_for(lambda: self.inside < self.limit)
            self.inside += 1

    def leave(self, run: int) -> None:
        """Make room for another; the company has changed."""
        with self.door:
            self.inside -= 1
            self.seconds.pop(run, None)
            self.door.notify_all()

    def epoch(self, run: int, seconds: float) -> None:
        """An epoch is over, in seconds a pass; the first one in a company also saw the one before it: skipped."""
        with self.door:
            self.seconds[run] = seconds if run in self.seconds else None
            if self.growing and self.inside == self.limit == len(self.seconds) and all(self.seconds.values()):
                self._reconsider()

    def _reconsider(self) -> None:
        """Everybody has trained an epoch in this company: was it worth it?"""
        rate = sum(1 / seconds for seconds in self.seconds.values() if seconds)
        self.growing = rate >= WORTHWHILE * self.best[0]
        self.best = max(self.best, (rate, self.inside)) if self.growing else self.best
        if self.growing:
            wanted = max(AT_ONCE, 2 * self.limit)
            self.limit = max(self.limit, min(wanted, self.room(self.inside)))
            self.seconds = {}
            self.door.notify_all()
        else:
            self.limit = self.best[1]  # those inside stay


def room_on_gpu(inside: int) -> int:
    """How many runs fit in all, from what those inside have reserved and what is free."""
    free, _ = torch.cuda.mem_get_info()
    each = max(1, torch.cuda.memory_reserved() / inside)  # runs that were started on a CPU go on there: 0
    return inside + int(SPARE * free / each)
