"""Checkpoints are written in the background, by one thread per process. The runs of a fleet share it."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Lock


class CheckpointWriter:
    """Writes the checkpoints of one run in the background.

    At most one waits for its turn: a newer one takes its place. A failure is raised by the next call, so a run must
    call ``wait`` before it ends.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.next: Callable[[], None] | None = None  # the write that has not started
        self.last: Future[None] | None = None  # turns are taken in order, so the last one is done after all others
        self.failure: Exception | None = None
        self.seconds = 0.0  # what the last write took

    def submit(self, write: Callable[[], None]) -> None:
        """Call ``write`` in the background, soon. Raises what an earlier write raised."""
        self.raise_failure()
        with self.lock:
            has_turn, self.next = self.next is not None, write
        if not has_turn:
            self.last = writer_thread(os.getpid()).submit(self._write_next)

    def wait(self) -> None:
        """Wait until everything is written. Raises what a write raised."""
        self.finish()
        self.raise_failure()

    def finish(self) -> None:
        """Wait until nothing is written any more; for a run that fails for another reason."""
        if self.last:
            wait([self.last])

    def raise_failure(self) -> None:
        """Raise what a write raised, once."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _write_next(self) -> None:
        with self.lock:
            write, self.next = self.next, None
        started = time.perf_counter()
        try:
            if write is not None:
                write()
        except Exception as error:  # the thread of the run raises it
            self.failure = error
        self.seconds = time.perf_counter() - started


@cache
def writer_thread(process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """The thread that writes. A forked process does not have the threads of its parent and needs its own."""
    return ThreadPoolExecutor(1, "checkpoint-writer")
