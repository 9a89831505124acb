"""Freed memory that the process keeps for its next allocation, on Linux with glibc.

A step on a CPU frees as much memory as it takes: gigabytes for large images. glibc gives blocks of 32 MB and more back
to the operating system at once, which clears each page again when the next step touches it.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # parameters of mallopt
KEEP = ((MMAP_MAX, 0), (TRIM_THRESHOLD, -1))  # no block has a mapping of its own, and nothing is given back
USUAL = ((MMAP_MAX, 65536), (MMAP_THRESHOLD, 32 << 20), (TRIM_THRESHOLD, 64 << 20))  # as far as glibc raises its own
SET_BY_USER = ("GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


class _Kept:
    """How many contexts are open, in all threads."""

    lock, contexts = Lock(), 0


@contextmanager
def freed_memory_kept(*, on_cpu: bool) -> Iterator[None]:
    """Keep freed memory inside, if it is a CPU that computes; give it back when the last context is left."""
    library = _glibc() if on_cpu else None
    if library is None:
        yield
        return
    with _Kept.lock:
        _Kept.contexts += 1
        _set(library, KEEP)
    try:
        yield
    finally:
        with _Kept.lock:
            _Kept.contexts -= 1
            if not _Kept.contexts:
                _set(library, USUAL)
                library.malloc_trim(0)


def _set(library: ctypes.CDLL, parameters: tuple[tuple[int, int], ...]) -> None:
    for parameter, value in parameters:
        library.mallopt(parameter, value)


@cache
def _glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it is glibc and the user has not set how it allocates; else None."""
    if sys.platform != "linux" or any(name in os.environ for name in SET_BY_USER):
        return None
    library = ctypes.CDLL(None)
    wanted = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return library if all(hasattr(library, name) for name in wanted) else None
