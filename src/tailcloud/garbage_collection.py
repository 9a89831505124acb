"""When Python's garbage collector does not search."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collect nothing inside."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
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
