"""SIGTERM: save a checkpoint, then exit.

Inside ``handle_sigterm`` the first SIGTERM only sets a flag. A run checks it between two steps (between two epochs with
CUDA graphs) and between two evaluation batches. A later SIGTERM ends the process immediately.
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

REPEAT_SECONDS = 2.0  # a cluster may send the same SIGTERM twice: to a process and through the one that started it


class Terminated(TailcloudError):
    """A run was stopped by SIGTERM after it was saved."""

    exit_code = 143  # what a shell reports for a process that SIGTERM ended


class EvaluationStopped(Terminated):
    """SIGTERM stopped an evaluation; what was trained before can still be saved."""


class _Signals:
    """The SIGTERM state of this process."""

    received: float | None = None  # when the first one came
    deferred: bool = True  # only set the flag; False: raise in the handler
    parent: Callable[[], bool] | None = None


def stop_requested() -> bool:
    """Whether runs of this process should save a checkpoint and end."""
    return _Signals.received is not None or (_Signals.parent is not None and _Signals.parent())


def follow_parent(parent: Callable[[], bool]) -> None:
    """For a worker process: ignore SIGTERM, and stop when ``parent()`` says that the parent process received it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Signals.parent = parent


def raise_if_stopped() -> None:
    """Raise ``Terminated`` if a stop was requested; for places where there is nothing to save."""
    if stop_requested():
        raise Terminated("stopped by SIGTERM")


def until_stopped(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, until a stop is requested; for work that is repeated after a resume.

    Raises:
        EvaluationStopped: instead of the next item.
    """
    for item in items:
        if stop_requested():
            raise EvaluationStopped("stopped by SIGTERM")
        yield item


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Install the SIGTERM handler. Only the main thread of a process can; in other threads nothing changes.

    Neither does it in a worker process, which stops with its parent.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if _Signals.parent is not None or not in_main_thread or signal.getsignal(signal.SIGTERM) is _on_sigterm:
        yield
        return
    before = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _Signals.received = None


@contextmanager
def stop_immediately() -> Iterator[None]:
    """Around work that has nothing to save: SIGTERM raises ``Terminated`` wherever the main thread is.

    In a worker process, which only looks for the stop of its parent, it raises before this work or after it.
    """
    if _Signals.parent is not None:
        raise_if_stopped()
        yield
        return
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not _on_sigterm:
        yield
        return
    _Signals.deferred = False
    try:
        raise_if_stopped()
        yield
    finally:
        _Signals.deferred = True


def _on_sigterm(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    now = time.monotonic()
    if _Signals.received is None:
        _Signals.received = now
        if not _Signals.deferred:
            raise_if_stopped()
    elif now - _Signals.received > REPEAT_SECONDS:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
