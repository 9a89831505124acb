"""How many runs train on one GPU at the same time: more as long as throughput grows and memory suffices.

The first run starts alone: it compiles what all runs need, and shows how much memory one run takes. Then eight run
together; after that the number doubles. It grows in large steps because adding runs costs set-up time.
"""

from collections.abc import Callable
from threading import Condition

import torch

MIN_SPEEDUP = 1.1  # in passes per second, against half as many runs
FIRST_GROUP = 8  # runs at the same time after the first one, if memory suffices
MEMORY_SHARE = 0.9  # of the free memory that new runs may take


class Admission:
    """Admits runs to a GPU. A run waits until it may ``enter``, reports its epochs, and leaves.

    ``room(n)`` is the number of runs that fit into memory, estimated while n are running. A ``fixed`` number of runs
    never changes.
    """

    def __init__(self, room: Callable[[int], int], fixed: int | None = None) -> None:
        self.room, self.limit, self.inside = room, fixed or 1, 0
        self.growing, self.best = fixed is None, (0.0, 1)  # the best rate so far, and with how many
        self.seconds: dict[int, float | None] = {}  # by run: the time of its last epoch with the present number of runs
        self.changed = Condition()

    def enter(self) -> None:
        """Wait until the run may start."""
        with self.changed:
            self.changed.wait_for(lambda: self.inside < self.limit)
            self.inside += 1

    def leave(self, run: int) -> None:
        """Report that a run has ended."""
        with self.changed:
            self.inside -= 1
            self.seconds.pop(run, None)
            self.changed.notify_all()

    def epoch(self, run: int, seconds: float) -> None:
        """Report an epoch, in seconds per pass; the first one after runs joined is not counted."""
        with self.changed:
            self.seconds[run] = seconds if run in self.seconds else None
            if self.growing and self.inside == self.limit == len(self.seconds) and all(self.seconds.values()):
                self._reconsider()

    def _reconsider(self) -> None:
        """All runs have trained an epoch together: admit more, or go back to the best number."""
        rate = sum(1 / seconds for seconds in self.seconds.values() if seconds)
        self.growing = rate >= MIN_SPEEDUP * self.best[0]
        self.best = max(self.best, (rate, self.inside)) if self.growing else self.best
        if self.growing:
            wanted = max(FIRST_GROUP, 2 * self.limit)
            self.limit = max(self.limit, min(wanted, self.room(self.inside)))
            self.seconds = {}
            self.changed.notify_all()
        else:
            self.limit = self.best[1]  # runs that were admitted stay


def room_on_gpu(inside: int) -> int:
    """How many runs fit in total, from the memory that the running ones reserved and the free memory."""
    free, _ = torch.cuda.mem_get_info()
    each = max(1, torch.cuda.memory_reserved() / inside)  # 0 if the runs were resumed on the CPU
    return inside + int(MEMORY_SHARE * free / each)
