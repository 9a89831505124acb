"""Lists of millions of images: parsed in blocks of bytes by NumPy, without a Python object per line.

Each line is a path, a blank and a whole number. ``read_large_list`` reads a list and the lists of other splits beside
it: ``parse_list`` parses one file into a ``ParsedList``, and ``merge_lists`` makes one ``LargeList`` of them, in which
each image is listed once. Names are compared by a 64-bit hash first, and by their bytes only if hashes are equal.
"""

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.packed_names import Names
from tailcloud.data.readers.csv_list import lists_of_splits, repeated_remark, together_remark
from tailcloud.data.readers.split_assignment import NO_SPLIT, SPLIT_NAMES, SplitAssignment, SplitNumbers
from tailcloud.data.splits import Vector
from tailcloud.errors import UsageError
from tailcloud.formatting import readable

BLOCK = 1 << 20  # bytes that are read at a time, and the longest line
MAX_BYTES = 2**31
MAX_DIGITS = 18  # of a label; more would not fit into 64 bits
BOM = b"\xef\xbb\xbf"
TAB, NEWLINE, RETURN, SPACE, MINUS, DOT, SLASH, ZERO = b"\t\n\r -./0"

WORD = 8  # bytes that are hashed at a time
HASH_FACTOR, HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
WORD_MASKS = np.array([(1 << WORD * kept) - 1 for kept in range(WORD + 1)], np.uint64)  # keep the first 0 to 8 bytes

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]


class UnexpectedLine(UsageError):
    """A line that is not a path, a blank and a whole number; ``csv_list`` may still be able to read it."""

    def __init__(self, file: Path, line: int) -> None:
        super().__init__(f"line {line:,} of {file} is not a path, a space and a whole number")
        self.line = line


@dataclass(frozen=True)
class ParsedList:
    """One file: ``names`` and ``labels`` in its order, a hash of each name, and the numbers of its blank lines."""

    file: Path
    names: Names
    labels: Vector
    hashes: Hashes
    blank: Vector

    def line(self, row: int) -> int:
        """The line number of a row, from 1."""
        rows_before = self.blank - np.arange(len(self.blank)) - 1
        return row + 1 + int(np.searchsorted(rows_before, row, side="right"))


@dataclass(frozen=True)
class LargeList:
    """Files in the order of their lists, with labels and splits; each image once."""

    names: Names
    labels: Vector
    splits: SplitNumbers
    remarks: tuple[str, ...] = ()

    def assignment(self, spec: str) -> SplitAssignment:
        """Classes numbered in the order of their labels, and splits as listed."""
        values, labels = _class_numbers(self.labels)
        return SplitAssignment(spec, [str(value) for value in values.tolist()], labels, self.splits)


def read_large_list(file: Path) -> LargeList:
    """A list of paths and whole numbers, together with the lists of other splits beside it.

    Raises:
        UnexpectedLine: a line is not a path and a whole number.
        UsageError: the list cannot be read, or an image has two labels or splits.
    """
    files = lists_of_splits(file)
    lists = {SPLIT_NAMES.index(split): parse_list(place) for split, place in files.items()}
    return merge_lists(lists or {NO_SPLIT: parse_list(file)}, together_remark(files))


def merge_lists(lists: dict[int, ParsedList], remarks: Sequence[str] = ()) -> LargeList:
    """Lists, by the number of their split, as one in which each image is listed once.

    Raises:
        UsageError: an image has two labels or splits.
    """
    parsed = list(lists.values())
    names = parsed[0].names if len(parsed) == 1 else Names.joined([one.names for one in parsed])
    labels = np.concatenate([one.labels for one in parsed])
    splits = np.repeat(np.array(list(lists), np.uint8), [len(one.labels) for one in parsed])
    again, first = find_repeats(names, np.concatenate([one.hashes for one in parsed]))
    wrong = np.flatnonzero((labels[again] != labels[first]) | (splits[again] != splits[first]))
    if len(wrong):
        raise _contradiction(parsed, int(first[wrong[0]]), int(again[wrong[0]]))
    if not len(again):
        return LargeList(names, labels, splits, tuple(remarks))
    kept = np.delete(np.arange(len(labels)), again)
    return LargeList(names.take(kept), labels[kept], splits[kept], (*remarks, *repeated_remark(len(again))))


def _contradiction(lists: Sequence[ParsedList], first: int, again: int) -> UsageError:
    """The error for an image that two rows, counted through all lists, say different things about."""
    ends = np.cumsum([len(one.labels) for one in lists])
    clauses = []
    for row in (first, again):
        place = int(np.searchsorted(ends, row, side="right"))
        one = lists[place]
        inner = row - (int(ends[place - 1]) if place else 0)
        clauses.append(f"the label {one.labels[inner]} in line {one.line(inner):,} of {one.file}")
        name = readable(one.names[inner])
    return UsageError(f"{name} has {clauses[0]} and {clauses[1]}; an image can have only one label and one split")


def _class_numbers(labels: Vector) -> tuple[Vector, Vector]:
    """The different labels in order, and for each image the position of its label among them.

    Small labels are counted rather than sorted, which is ten times as fast for ten million images.
    """
    low, high = int(labels.min()), int(labels.max())
    if high - low > len(labels):
        values, positions = np.unique(labels, return_inverse=True)
        return values, positions.astype(np.int64)
    present = np.bincount(labels - low) > 0
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[labels - low]


# Parsing a file


@dataclass(frozen=True)
class _Lines:
    """The lines of a block that are not blank: where each path starts and ends, and its label."""

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


def parse_list(file: Path) -> ParsedList:
    """The lines of a list, ``.txt`` or compressed as ``.txt.xz``; a leading "./" of a path is removed.

    Raises:
        UnexpectedLine: a line is not a path and a whole number.
        UsageError: the file is not UTF-8, or has more than 2 GB.
    """
    names, labels, hashes, blank, lines = [], [], [], [np.zeros(0, np.int64)], 0
    for block in _blocks(file):
        parsed, empty, count = _parse_block(file, block, lines)
        names.append(parsed.names())
        labels.append(parsed.labels)
        hashes.append(hash_names(parsed.block, parsed.starts, parsed.ends))
        blank.append(empty)
        lines += count
    if not any(map(len, labels)):
        raise UsageError(f"{file} lists no images; each line should be a path and a label")
    return ParsedList(file, Names.joined(names), np.concatenate(labels), np.concatenate(hashes), np.concatenate(blank))


def _blocks(file: Path) -> Iterator[Bytes]:
    """Whole lines in blocks of about a megabyte; the last block ends with a newline too."""
    rest, size = b"", 0
    try:
        with _open(file) as stream:
            while chunk := stream.read(BLOCK):
                size += len(chunk)
                if size > MAX_BYTES:
                    raise UsageError(f"{file} has more than {MAX_BYTES:,} bytes, the largest list of images")
                text = rest + chunk.removeprefix(BOM if size == len(chunk) else b"")
                whole, newline, rest = text.rpartition(b"\n")
                if len(rest) > BLOCK:
                    raise UsageError(f"{file} has a line of more than {BLOCK:,} bytes; it is not a list of images")
                if newline:
                    yield _utf8(file, whole + newline)
    except (lzma.LZMAError, EOFError):
        raise UsageError(f"{file} is damaged and cannot be decompressed") from None
    if rest:
        yield _utf8(file, rest + b"\n")


def _open(file: Path) -> IO[bytes]:
    return lzma.open(file) if file.suffix == ".xz" else file.open("rb")


def _utf8(file: Path, text: bytes) -> Bytes:
    try:
        if not text.isascii():
            text.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    return np.frombuffer(text, np.uint8)


def _parse_block(file: Path, block: Bytes, lines: int) -> tuple[_Lines, Vector, int]:
    """The lines of a block, the numbers of its blank lines, and how many lines it has; ``lines`` came before."""
    newlines = np.flatnonzero(block == NEWLINE)
    first = np.append(0, newlines[:-1] + 1)
    last = _strip_right(block, first, newlines)
    filled = last > first
    first, last = first[filled], last[filled]
    numbers, labels = _trailing_numbers(block, first, last)
    starts = _strip_left(block, first, numbers)
    ends = _strip_right(block, starts, numbers)
    wrong = (numbers == last) | (starts == ends) | (ends == numbers)
    unexpected = np.append(first[wrong], _control_characters(block))
    if len(unexpected):
        raise UnexpectedLine(file, lines + int(np.searchsorted(newlines, unexpected.min())) + 1)
    parsed = _Lines(block, _skip_dot_slash(block, starts, ends), ends, labels)
    return parsed, np.flatnonzero(~filled) + lines + 1, len(filled)


def _strip_right(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    """``ends`` moved left over blanks, at most to ``starts``."""
    moved, rows = ends.copy(), np.arange(len(ends))
    while len(rows := rows[moved[rows] > starts[rows]]):
        rows = rows[block[moved[rows] - 1] <= SPACE]
        moved[rows] -= 1
    return moved


def _strip_left(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    """``starts`` moved right over blanks, at most to ``ends``."""
    moved, rows = starts.copy(), np.arange(len(starts))
    while len(rows := rows[moved[rows] < ends[rows]]):
        rows = rows[block[moved[rows]] <= SPACE]
        moved[rows] += 1
    return moved


def _trailing_numbers(block: Bytes, starts: Vector, ends: Vector) -> tuple[Vector, Vector]:
    """Where the whole numbers before ``ends`` begin, and their values; one with leading zeros begins at its end."""
    begins, values, rows = ends.copy(), np.zeros(len(ends), np.int64), np.arange(len(ends))
    for place in range(MAX_DIGITS):
        rows = rows[begins[rows] > starts[rows]]
        digits = block[begins[rows] - 1] - ZERO  # other characters wrap around or give 10 and more
        rows, digits = rows[digits < 10], digits[digits < 10]
        begins[rows] -= 1
        values[rows] += digits * np.int64(10**place)
    padded = (block[begins] == ZERO) & (ends - begins > 1)
    negative = (begins > starts) & (block[begins - 1] == MINUS) & (values > 0)
    values[negative] *= -1
    return np.where(padded, ends, begins - negative), values


def _control_characters(block: Bytes) -> Vector:
    """Where control characters are that other readers of lists might take for the end of a line or a word."""
    low = np.flatnonzero(block < SPACE)
    signs = block[low]
    line_end = (signs == RETURN) & (block[np.minimum(low + 1, len(block) - 1)] == NEWLINE)
    control: Vector = low[~(line_end | (signs == NEWLINE) | (signs == TAB))]
    return control


def _skip_dot_slash(block: Bytes, starts: Vector, ends: Vector) -> Vector:
    dotted = (ends - starts > 2) & (block[starts] == DOT) & (block[starts + 1] == SLASH)
    return np.where(dotted, starts + 2, starts)


# Finding names that are listed twice


def hash_names(block: Bytes, starts: Vector, ends: Vector) -> Hashes:
    """A 64-bit hash of each slice of bytes.

    Eight bytes at a time are taken as a number and mixed into the hash; bytes behind the end are masked.
    """
    padded = np.append(block, np.zeros(WORD, np.uint8))
    words = np.ndarray((len(block) + 1,), "<u8", padded.data, strides=(1,))  # one word at every byte
    hashes, rows, at = (ends - starts).astype(np.uint64), np.arange(len(starts)), starts.copy()
    while len(rows := rows[at[rows] < ends[rows]]):
        here = at[rows]
        mixed = (hashes[rows] ^ (words[here] & WORD_MASKS[np.minimum(ends[rows] - here, WORD)])) * HASH_FACTOR
        hashes[rows] = mixed ^ (mixed >> HASH_SHIFT)
        at[rows] += WORD
    return hashes


def find_repeats(names: Names, hashes: Hashes) -> tuple[Vector, Vector]:
    """The rows whose name an earlier row has too, in order, and for each of them the first row with that name."""
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    alike = np.flatnonzero(np.isin(hashes, ordered[1:][ordered[1:] == ordered[:-1]]))
    first: dict[bytes, int] = {}
    pairs = [(row, first.setdefault(names.raw(row), row)) for row in alike.tolist()]
    again = np.array([pair for pair in pairs if pair[0] != pair[1]], np.int64).reshape(-1, 2)
    return again[:, 0], again[:, 1]
