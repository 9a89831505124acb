"""What keeps images together in one split (``data.group``): a column, a part of the file name, bursts, copies."""

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.readers.burst_groups import BURST, burst_groups
from tailcloud.data.readers.duplicate_groups import duplicate_groups
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.splits import Vector
from tailcloud.errors import UsageError
from tailcloud.formatting import counted

MATCHED_AT_ONCE, MATCH_SECONDS = 1000, 10.0


class GroupFinder(NamedTuple):
    """Groups that are found by opening the files: how, what one and several are called, what their images share."""

    find: Callable[[Sequence[Path]], Vector]
    one: str
    several: str
    common: str


FOUND_GROUPS = {
    "exif": GroupFinder(burst_groups, "burst", "bursts", BURST),
    "duplicates": GroupFinder(duplicate_groups, "set of copies", "sets of copies", "the same or nearly so"),
}


def group_keys(files: FileList, group: str | None) -> tuple[Sequence[str] | None, list[str]]:
    """The key of each file's group, and remarks; None if ``group`` is None.

    The key is the group column of the list; or, with "exif" or "duplicates", that of the burst or the set of copies; or
    the first group of the regular expression ``group`` in the name of the file. A file without a key is a group of its
    own.

    Raises:
        UsageError: no file has a key, or ``group`` is not a regular expression with a group in it.
    """
    if group is None:
        return None, []
    if files.groups is None and group in FOUND_GROUPS:
        return _found_keys(files, group)
    keys = files.groups if files.groups is not None else _matched(files.names, group)
    alone = sum(not key for key in keys)
    if alone == len(keys):
        raise UsageError(
            f'data.group = "{group}" is not a column and matches no file name, for example not "{files.names[0]}"; '
            'give a column of the CSV, or a regular expression such as "(patient[0-9]+)"'
        )
    remark = f"{alone:,} of {len(keys):,} images have no group by data.group; each of them is a group of its own."
    # no name has a control character, so these keys cannot be the key of a real group
    return [key or f"\n{number}" for number, key in enumerate(keys)], [remark] if alone else []


def grouped(first: Vector) -> NDArray[np.bool_]:
    """Whether each image shares its group with another; ``first`` has the first image of the group of each."""
    return np.asarray(np.bincount(first, minlength=len(first))[first] > 1)


def _found_keys(files: FileList, group: str) -> tuple[list[str], list[str]]:
    finder = FOUND_GROUPS[group]
    first = _found(group, tuple(map(_state, files.paths)))
    together = grouped(first)
    if not together.any():
        raise UsageError(
            f'data.group = "{group}" finds no {finder.several} ({finder.common}) among {counted(len(files), "file")}; '
            "leave it out"
        )
    groups = counted(len(np.unique(first[together])), finder.one, finder.several)
    remark = f"{together.sum():,} of {len(files):,} images are in {groups} ({finder.common}; data.group)."
    return [files.names[row] for row in first.tolist()], [remark]


@lru_cache(maxsize=1)  # data are opened once to choose a recipe, and again as the recipe says
def _found(group: str, files: tuple[tuple[Path, int, int], ...]) -> Vector:
    return FOUND_GROUPS[group].find([path for path, _, _ in files])


def _state(path: Path) -> tuple[Path, int, int]:
    """A file with its time of change and its size; zeros if it is missing."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name with a NUL, which no file can have
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size


def _matched(names: Sequence[str], pattern: str) -> list[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f'data.group = "{pattern}" is not a regular expression: {error}') from None
    if not expression.groups:
        raise UsageError(
            f'data.group = "{pattern}" has no (…) around the part of the file name that is the key, '
            'as in "(patient[0-9]+)_"; "exif" and "duplicates" need none'
        )
    keys: list[str] = []
    for start in range(0, len(names), MATCHED_AT_ONCE):
        with _time_limit(f'data.group = "{pattern}" takes more than {MATCH_SECONDS:g} s on a few file names'):
            found = map(expression.search, names[start : start + MATCHED_AT_ONCE])
            keys += [(match.group(1) or "") if match else "" for match in found]
    return keys


@contextmanager
def _time_limit(sentence: str) -> Iterator[None]:
    """Stop a regular expression that would backtrack for years; only where signals can: in the main thread, on Unix."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise UsageError(f"{sentence}; write it without a repetition inside a repetition, as in (a+)+")

    handler = signal.signal(signal.SIGALRM, stop)
    before = signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler)
