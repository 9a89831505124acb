"""What benchmarks/kills.py has in every Python process that it starts, decoders, workers and ranks too.

SIGUSR1 writes where the process is (``faulthandler``, without a word of Python), and on a "slow disk" every flush and
every renaming takes longer.
"""

import faulthandler
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

STACKS, SLOW = "TAILCLOUD_KILLS_STACKS", "TAILCLOUD_KILLS_SLOW_DISK"
SITE = f"import {__name__}\n\n{__name__}.install()\n"  # sitecustomize.py, which Python imports when it starts
SLOWED = ("fsync", "replace", "rename", "link")

_files: list[IO[str]] = []


def install() -> None:
    """Called once in every process."""
    if folder := os.environ.get(STACKS):
        _files.append((Path(folder) / str(os.getpid())).open("w"))
        # Only the thread that the signal interrupts, the main one: to walk the frames of threads that are running has
        # crashed Python 3.11.
        faulthandler.register(signal.SIGUSR1, file=_files[-1], all_threads=False)
    if seconds := float(os.environ.get(SLOW, "0")):
        for name in SLOWED:
            setattr(os, name, slowed(getattr(os, name), seconds))


def slowed(call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The same call, so many seconds later."""

    def later(*words: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return call(*words, **options)

    return later


def can_tell(process: int) -> bool:
    """Whether a process has the handler already: SIGUSR1 ends one that has not."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


def stack_of(process: int, folder: Path) -> str:
    """What the main thread of a process is doing, one line per frame; empty while Python starts."""
    file = folder / str(process)
    if not file.exists() or not can_tell(process):
        return ""
    before = file.stat().st_size
    try:
        os.kill(process, signal.SIGUSR1)
    except ProcessLookupError:
        return ""
    for _ in range(20):
        time.sleep(0.001)
        text = file.read_text(errors="replace")
        if len(text) > before and text.endswith("\n"):
            break
    return text[before:]
