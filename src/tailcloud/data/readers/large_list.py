"""Lists of millions of images: read in blocks of bytes, never line by line, without a Python object per image."""

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.packed_names import Names
from tailcloud.data.readers.csv_list import companions
from tailcloud.data.readers.split_assignment import NO_PART, PART_NAMES, Arrangement, Parts
from tailcloud.data.splits import Vector
from tailcloud.errors import UsageError
from tailcloud.formatting import counted, readable

Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint64]

WORD = 8  # bytes
FACTOR, TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
MASKS = np.array([(1 << WORD * kept) - 1 for kept in range(WORD + 1)], np.uint64)  # of so many bytes


def keys_of(block: Bytes, starts: Vector, ends: Vector) -> Keys:
    """A number for each stretch of bytes: the same for the same bytes, and hardly ever for others.

    Eight bytes at a time are taken as a number and mixed into the key; bytes behind the end are masked.
    """
    padded = np.append(block, np.zeros(WORD, np.uint8))
    words = np.ndarray((len(block) + 1,), "<u8", padded.data, strides=(1,))  # one at every byte
    keys, rows, at = (ends - starts).astype(np.uint64), np.arange(len(starts)), starts.copy()
    while len(rows := rows[at[rows] < ends[rows]]):
        here = at[rows]
        mixed = (keys[rows] ^ (words[here] & MASKS[np.minimum(ends[rows] - here, WORD)])) * FACTOR
        keys[rows] = mixed ^ (mixed >> TURN)
        at[rows] += WORD
    return keys


def repeats(names: Names, keys: Keys) -> tuple[Vector, Vector]:
    """Rows whose name an earlier row has too, in order, and for each of them the first row that has it."""
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alike = np.flatnonzero(np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]))
    first: dict[bytes, int] = {}
    pairs = [(row, first.setdefault(names.raw(row), row)) for row in alike.tolist()]
    again = np.array([pair for pair in pairs if pair[0] != pair[1]], np.int64).reshape(-1, 2)
    return again[:, 0], again[:, 1]


BLOCK = 1 << 20  # bytes
LARGEST = 2**31  # bytes
DIGITS = 18  # of a label; more would not fit into 64 bits
BOM = b"\xef\xbb\xbf"
TAB, NEWLINE, RETURN, SPACE, MINUS, DOT, SLASH, ZERO = b"\t\n\r -./0"


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


@dataclass(frozen=True)
class LongList:
    """Files in the order of their lists, with their labels and parts."""

    names: Names
    labels: Vector
    parts: Parts
    remarks: tuple[str, ...] = ()

    def arranged(self, spec: str) -> Arrangement:
        """With classes that are numbered through, in the order of their labels."""
        values, labels = _numbered(self.labels)
        return Arrangement(spec, [str(value) for value in values.tolist()], labels, self.parts, remarks=[])


def read_long_list(file: Path) -> LongList:
    """A list of paths and whole numbers, with the lists of other parts beside it as ``read_list`` takes them along.

    Raises:
        NotPlain: a line is no path and whole number.
    """
    others = companions(file)
    lists = {PART_NAMES.index(part): read_plain(place) for part, place in others.items()} or {NO_PART: read_plain(file)}
    remarks = [f"{', '.join(place.name for place in others.values())} are read together as parts."] if others else []
    return once(lists, remarks)


def once(lists: dict[int, PlainList], remarks: Sequence[str] = ()) -> LongList:
    """Some lists, by part, as one in which each image stands once; one with two labels or parts is refused."""
    found = list(lists.values())
    names = found[0].names if len(found) == 1 else Names.joined([one.names for one in found])
    labels = np.concatenate([one.labels for one in found])
    parts = np.repeat(np.array(list(lists), np.uint8), [len(one.labels) for one in found])
    again, first = repeats(names, np.concatenate([one.keys for one in found]))
    wrong = np.flatnonzero((labels[again] != labels[first]) | (parts[again] != parts[first]))
    if len(wrong):
        raise _twice(lists, int(first[wrong[0]]), int(again[wrong[0]]))
    if not len(again):
        return LongList(names, labels, parts, tuple(remarks))
    kept = np.delete(np.arange(len(labels)), again)
    told = f"Left out, since their images were listed before: {counted(len(again), 'line')}."
    return LongList(names.take(kept), labels[kept], parts[kept], (*remarks, told))


def _twice(lists: dict[int, PlainList], first: int, again: int) -> UsageError:
    ends = np.cumsum([len(one.labels) for one in lists.values()])
    said = []
    for row in (first, again):
        place = int(np.searchsorted(ends, row, side="right"))
        one = list(lists.values())[place]
        inner = row - (int(ends[place - 1]) if place else 0)
        said.append(f"the label {one.labels[inner]} in line {one.line(inner):,} of {one.file}")
        name = readable(one.names[inner])
    return UsageError(f"{name} has {said[0]} and {said[1]}; an image can have one label and one part only")


def _numbered(labels: Vector) -> tuple[Vector, Vector]:
    """The labels that there are, in order, and for each image the place of its own among them.

    Labels of ten million images are counted where they are small, which takes a tenth of the time that sorting does.
    """
    low, high = int(labels.min()), int(labels.max())
    if high - low > len(labels):
        values, places = np.unique(labels, return_inverse=True)
        return values, places.astype(np.int64)
    there = np.bincount(labels - low) > 0
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[labels - low]
