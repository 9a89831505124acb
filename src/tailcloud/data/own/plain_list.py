"""Lists of very many images: lines of a path and a whole number, read in blocks of bytes and never line by line."""

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.names import Names
from tailcloud.data.own.repeats import Keys, keys_of
from tailcloud.data.parting import Vector
from tailcloud.errors import UsageError

BLOCK = 1 << 20  # bytes
LARGEST = 2**31  # bytes
DIGITS = 18  # of a label; more would not fit into 64 bits
BOM = b"\xef\xbb\xbf"
TAB, NEWLINE, RETURN, SPACE, MINUS, DOT, SLASH, ZERO = b"\t\n\r -./0"

Bytes = NDArray[np.uint8]


class NotPlain(UsageError):
    """A line that is no path, blank and whole number; there are lists of which that is right."""

    def __init__(self, file: Path, line: int) -> None:
        super().__init__(f"line {line:,} of {file} is not a path, a space and a whole number")
        self.line = line


@dataclass(frozen=True)
class PlainList:
    """What a list says: ``names`` and ``labels`` in its order, a key of each name, and which of its lines are blank."""

    file: Path
    names: Names
    labels: Vector
    keys: Keys
    blank: Vector

    def line(self, row: int) -> int:
        """The line that a row stands in, from 1."""
        rows_before = self.blank - np.arange(len(self.blank)) - 1
        return row + 1 + int(np.searchsorted(rows_before, row, side="right"))


@dataclass(frozen=True)
class _Rows:
    """The rows of a block: where each path starts and ends, and its label."""

    block: Bytes
    starts: Vector
    ends: Vector
    labels: Vector

    def names(self) -> Names:
        edges = np.zeros(len(self.block) + 1, np.int8)
        edges[self.starts] = 1
        edges[self.ends] = -1
        inside = np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
        return Names(self.block[inside].tobytes(), np.cumsum(self.ends - self.starts))


def read_plain(file: Path) -> PlainList:
    """The lines of a list, ``.txt`` or packed as ``.txt.xz``; a "./" in front of a path is taken off.

    Raises:
        NotPlain: a line is something else.
        UsageError: no UTF-8, or more than 2 GB.
    """
    names, labels, keys, blank, lines = [], [], [], [np.zeros(0, np.int64)], 0
    for block in _blocks(file):
        here, empty, count = _parsed(file, block, lines)
        names.append(here.names())
        labels.append(here.labels)
        keys.append(keys_of(here.block, here.starts, here.ends))
        blank.append(empty)
        lines += count
    if not any(map(len, labels)):
        raise UsageError(f"{file} lists no image; each line should be a path and a label")
    return PlainList(file, Names.joined(names), np.concatenate(labels), np.concatenate(keys), np.concatenate(blank))


def _blocks(file: Path) -> Iterator[Bytes]:
    """Whole lines in blocks of some megabytes; the last one ends with a newline as well."""
    rest, size = b"", 0
    try:
        with _opened(file) as stream:
            while chunk := stream.read(BLOCK):
                size += len(chunk)
                if size > LARGEST:
                    raise UsageError(f"{file} has more than {LARGEST:,} bytes, and a list of images at most that many")
                whole, newline, after = (rest + chunk.removeprefix(BOM if size == len(chunk) else b"")).rpartition(
                    b"\n"
                )
                rest = after
                if len(rest) > BLOCK:
                    raise UsageError(f"{file} has a line of more than {BLOCK:,} bytes, and is no list of images")
                if newline:
                    yield _checked(file, whole + newline)
    except (lzma.LZMAError, EOFError):
        raise UsageError(f"{file} is damaged: it cannot be unpacked") from None
    if rest:
        yield _checked(file, rest + b"\n")


def _opened(file: Path) -> IO[bytes]:
    return lzma.open(file) if file.suffix == ".xz" else file.open("rb")


def _checked(file: Path, text: bytes) -> Bytes:
    try:
        if not text.isascii():
            text.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    return np.frombuffer(text, np.uint8)


def _parsed(file: Path, block: Bytes, lines: int) -> tuple[_Rows, Vector, int]:
    """The rows of a block, its blank lines by number, and how many lines it has; ``lines`` came before."""
    newlines = np.flatnonzero(block == NEWLINE)
    first = np.append(0, newlines[:-1] + 1)
    last = _before_blanks(block, first, newlines)
    filled = last > first
    first, last = first[filled], last[filled]
    numbers, labels = _numbers(block, first, last)
    starts = _after_blanks(block, first, numbers)
    ends = _before_blanks(block, starts, numbers)
    wrong = (numbers == last) | (starts == ends) | (ends == numbers)
    unfit = np.append(first[wrong], _strange(block))
    if len(unfit):
        raise NotPlain(file, lines + int(np.searchsorted(newlines, unfit.min())) + 1)
    return _Rows(block, _undotted(block, starts, ends), ends, labels), np.flatnonzero(~filled) + lines + 1, len(filled)


def _before_blanks(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    """Ends moved to the left of the blanks that they stand behind, at most to ``starts``."""
    moved, rows = ends.copy(), np.arange(len(ends))
    while len(rows := rows[moved[rows] > starts[rows]]):
        rows = rows[block[moved[rows] - 1] <= SPACE]
        moved[rows] -= 1
    return moved


def _after_blanks(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    """Starts moved to the right of the blanks that they stand on, at most to ``ends``."""
    moved, rows = starts.copy(), np.arange(len(starts))
    while len(rows := rows[moved[rows] < ends[rows]]):
        rows = rows[block[moved[rows]] <= SPACE]
        moved[rows] += 1
    return moved


def _numbers(block: Bytes, starts: Vector, ends: Vector) -> tuple[Vector, Vector]:
    """Where the whole numbers at the ends begin, and what they are; one that nobody writes so begins at its end."""
    begins, values, rows = ends.copy(), np.zeros(len(ends), np.int64), np.arange(len(ends))
    for place in range(DIGITS):
        rows = rows[begins[rows] > starts[rows]]
        digits = block[begins[rows] - 1] - ZERO  # what is no digit wraps around, or is 10 and more
        rows, digits = rows[digits < 10], digits[digits < 10]
        begins[rows] -= 1
        values[rows] += digits * np.int64(10**place)
    padded = (block[begins] == ZERO) & (ends - begins > 1)
    negative = (begins > starts) & (block[begins - 1] == MINUS) & (values > 0)
    values[negative] *= -1
    return np.where(padded, ends, begins - negative), values


def _strange(block: Bytes) -> Vector:
    """Where control characters stand that other readers of lists might take for the end of a line or a word."""
    low = np.flatnonzero(block < SPACE)
    signs = block[low]
    ending = (signs == RETURN) & (block[np.minimum(low + 1, len(block) - 1)] == NEWLINE)
    strange: Vector = low[~(ending | (signs == NEWLINE) | (signs == TAB))]
    return strange


def _undotted(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    """Starts behind a "./"."""
    dotted = (ends - starts > 2) & (block[starts] == DOT) & (block[starts + 1] == SLASH)
    return np.where(dotted, starts + 2, starts)
