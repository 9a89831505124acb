"""When Python's garbage collector does not search."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pause:
    """How many threads want nothing to be collected, and whether the last of them has to switch it on again."""

    lock, threads, resume = Lock(), 0, False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collect nothing inside, nor before all threads that are inside have left."""
    with _Pause.lock:
        if not _Pause.threads:
            _Pause.resume = gc.isenabled()
        _Pause.threads += 1
        gc.disable()
    try:
        yield
    finally:
        with _Pause.lock:
            _Pause.threads -= 1
            if not _Pause.threads and _Pause.resume:
                gc.enable()


@contextmanager
def imports_kept() -> Iterator[None]:
    """Collect nothing inside, and never search what was made there: it is needed until the process ends.

    PyTorch alone makes hundreds of thousands of objects. Searching them while they are imported takes as long as a
    third of the import.
    """
    with collection_paused():
        yield
    gc.freeze()


def exit_quickly() -> None:
    """At the end of the process, leave the memory to the operating system instead of searching it for garbage."""
    atexit.register(gc.freeze)
