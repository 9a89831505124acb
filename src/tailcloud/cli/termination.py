"""SIGTERM and Ctrl-C outside of training: temporary files are removed, and no traceback is printed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143  # what a shell reports for a process that SIGINT or SIGTERM ended


@contextmanager
def clean_exit_on_signals() -> Iterator[None]:
    """Around a whole command: SIGTERM ends it as an error would, so that what it began to write is removed.

    A second Ctrl-C during the clean-up of the first, or at the end of the process, is no traceback. Training has a
    handler of its own, which saves a checkpoint; under torchrun SIGTERM stays as it is, because a process may wait for
    another one that has ended.
    """
    if "WORLD_SIZE" not in os.environ and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    finally:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _end_at_once)
        if signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _end_at_once(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
