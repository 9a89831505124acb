"""Python's garbage collector does not search what is imported once and needed until the end.

PyTorch alone makes hundreds of thousands of objects. Searching them while they are imported, and once more when the
process ends, takes as long as a third of the import.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collect nothing inside, and never search what was made there."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def exit_quickly() -> None:
    """At the end of the process, leave the memory to the operating system instead of searching it for garbage."""
    atexit.register(gc.freeze)
