"""How many runs train on one GPU at the same time: more as long as throughput grows and memory suffices.

The first run starts alone: it compiles what all runs need, and shows how much memory one run takes. Then four run
together, and twice as many as long as the whole fleet gets more done by wall clock. A few runs saturate a GPU, and runs
that wait cost nothing: when one ends, the next one enters at once. Only a last group of few runs would leave the GPU
half idle: if more runs than pay do no harm either, those that would be left over enter before.
"""

import time
from collections.abc import Callable
from threading import Condition

import torch

from tailcloud.training.executors.cuda_graph import release_cached_memory

MIN_SPEEDUP = 1.1  # in passes per second, against half as many runs
FIRST_GROUP = 4  # runs at the same time after the first one, if memory suffices
MEMORY_SHARE = 0.9  # of the free memory that new runs may take
WINDOW_EPOCHS = 5  # of each run that a rate is measured over, or a multiple: not every epoch has an evaluation
WINDOW_SECONDS = 3.0  # that a rate is measured over at least


class Admission:
    """Admits runs to a GPU. A run waits until it may ``enter``, reports its epochs, and leaves.

    ``room(n)`` is the number of runs that fit into memory, estimated while n are running. A ``fixed`` number of runs
    never changes. Time is that of the ``clock``: between the ends of two epochs lies everything that a run does.
    """

    def __init__(
        self, room: Callable[[int], int], fixed: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.room, self.limit, self.inside, self.clock = room, fixed or 1, 0, clock
        self.waiting: set[int] = set()
        self.extra = 0  # runs that may still enter beyond the limit
        self.growing, self.best = fixed is None, (0.0, 1)  # the best rate so far, and with how many
        self.evaluated = False  # whether any run was: its memory and its kernels are known
        self.ends: dict[int, list[tuple[float, float]]] = {}  # by run, see ``epoch``
        self.changed = Condition()

    def enter(self, run: int) -> None:
        """Wait until the run may start. Of those that wait, the one with the lowest number is next."""
        with self.changed:
            self.waiting.add(run)
            self.changed.wait_for(lambda: (self.inside < self.limit or self.extra) and run == min(self.waiting))
            self.waiting.remove(run)
            self.extra -= self.inside >= self.limit
            self._change(+1)

    def leave(self) -> None:
        """Report that a run has ended."""
        with self.changed:
            self._change(-1)

    def _change(self, difference: int) -> None:
        """Other runs than before train from now on: a rate is measured anew."""
        self.inside += difference
        self.ends = {}
        self.changed.notify_all()

    def epoch(self, run: int, work: float, *, evaluated: bool) -> None:
        """Report the end of an epoch of so much ``work``, in passes over the images.

        A rate is measured from the moment when each run has ended an epoch since the last one entered or left. From
        then on, ``ends`` has the time and the work so far at the end of every epoch.
        """
        with self.changed:
            now, self.evaluated = self.clock(), self.evaluated or evaluated
            if not self.growing:
                return
            if run not in self.ends:  # it was being set up, or in an epoch with other runs
                self.ends = {known: [] for known in self.ends} | {run: [(now, 0.0)]}
                return
            done = self.ends[run]
            done.append((now, done[-1][1] + work if done else 0.0))
            if self.inside == self.limit == len(self.ends) and self._enough(now):
                self._reconsider()

    def _enough(self, now: float) -> bool:
        """Whether a rate is measured; the first run is alone until it has evaluated, or trained a few epochs."""
        epochs = min(len(done) for done in self.ends.values()) - 1
        if self.limit == 1:
            return epochs >= WINDOW_EPOCHS or (epochs >= 1 and self.evaluated)
        return epochs >= WINDOW_EPOCHS and now - min(done[0][0] for done in self.ends.values()) >= WINDOW_SECONDS

    def _reconsider(self) -> None:
        """Admit more runs if these pay, or go back to the best number."""
        rate = sum(map(_rate, self.ends.values()))
        self.growing = rate >= MIN_SPEEDUP * self.best[0]
        if self.growing:
            self.best = rate, self.inside
            wanted = max(FIRST_GROUP, 2 * self.limit)
            self.limit = max(self.limit, min(wanted, self.room(self.inside)))
            self.ends = {}
            self.changed.notify_all()
        else:
            self.limit = self.best[1]  # runs that were admitted stay
            if MIN_SPEEDUP * rate >= self.best[0]:
                self.extra = min(len(self.waiting) % self.limit, max(0, self.room(self.inside) - self.inside))
                self.changed.notify_all()


def _rate(ends: list[tuple[float, float]]) -> float:
    """Work per second between the ends of epochs; with as many evaluations for every run if there are enough."""
    epochs = len(ends) - 1
    last = epochs - epochs % WINDOW_EPOCHS or epochs
    (started, _), (ended, work) = ends[0], ends[last]
    return work / max(ended - started, 1e-9)


def room_on_gpu(inside: int) -> int:
    """How many runs fit in total, from the memory that the running ones reserved and the free memory."""
    release_cached_memory()  # what warm-ups left behind is no part of a run
    free, _ = torch.cuda.mem_get_info()
    each = max(1, torch.cuda.memory_reserved() / inside)  # 0 if the runs were resumed on the CPU
    return inside + int(MEMORY_SHARE * free / each)
