"""SIGTERM: whoever needs the machine back asks a run to save what it has, and to end.

While somebody listens, the first SIGTERM is only remembered; runs look at it between two steps, or two epochs where an
epoch is one piece of work, and between two batches that are only measured. A later one ends the process at once, as it
would without a listener.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from tailcloud.errors import TailcloudError

Item = TypeVar("Item")

AT_ONCE = 2.0  # seconds in which a cluster may say the same twice: to a process, and to the one that started it


class Terminated(TailcloudError):
    """A run was asked to end and is saved: not a failure, and nothing is lost."""

    exit_code = 143  # what a shell says of a process that SIGTERM ended


class BrokenOff(Terminated):
    """What was being measured is given up; what was trained until then can still be saved."""


class _Ear:
    """What this process was told; a process has one."""

    told: float | None = None
    patient: bool = True
    parent: Callable[[], bool] | None = None


def asked() -> bool:
    """Whether runs of this process should save what they have, and end."""
    return _Ear.told is not None or (_Ear.parent is not None and _Ear.parent())


def follow(parent: Callable[[], bool]) -> None:
    """In a process that works for another one: that one listens, and ``parent`` says whether it was asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Ear.parent = parent


def check() -> None:
    """End here, where there is nothing to save, if somebody asks for it."""
    if asked():
        raise Terminated("stopped by SIGTERM")


def while_wanted(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, until somebody asks this process to end: for work that is done anew later.

    Raises:
        BrokenOff: instead of the next item.
    """
    for item in items:
        if asked():
            raise BrokenOff("stopped by SIGTERM")
        yield item


@contextmanager
def listening() -> Iterator[None]:
    """Hear SIGTERM for a while. Only the main thread of a process can, so in others nothing changes."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is _hear:
        yield
        return
    before = signal.signal(signal.SIGTERM, _hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _Ear.told = None


@contextmanager
def at_once() -> Iterator[None]:
    """Around what can be broken off anywhere and leaves nothing to save: whoever listens there ends where it is."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not _hear:
        yield
        return
    _Ear.patient = False
    try:
        check()
        yield
    finally:
        _Ear.patient = True


def _hear(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    now = time.monotonic()
    if _Ear.told is None:
        _Ear.told = now
        if not _Ear.patient:
            check()
    elif now - _Ear.told > AT_ONCE:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
