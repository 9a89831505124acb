"""List files: a CSV or TSV with a header, or lines of a path and a label."""

import csv
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic

from tailcloud.data.image_io import SUFFIXES
from tailcloud.data.readers.file_list import PARTS, Listing
from tailcloud.errors import UsageError
from tailcloud.formatting import counted, readable, some_of

PATH_COLUMNS = ("path", "file", "image", "filename", "filepath", "file_name", "image_path")
LABEL_COLUMNS = ("label", "class", "category", "target")
SPLIT_COLUMNS = ("split", "part", "subset")
LARGEST = 2**28  # bytes
DETOUR = re.compile(r"//|/$|(^|/)\.(/|$)")
LINES, SECONDS_BETWEEN_NOTES = 10_000, 5.0  # how often somebody looks at the clock, and how often it is told

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list."""

    file: Path
    line: int
    path: str
    label: str
    part: str
    group: str


def read_list(file: Path, group: str | None = None) -> Listing:
    """The images that a list names, sorted by label and path; paths are relative to the list, or absolute.

    ``.csv`` and ``.tsv`` have a header with a column path (or file, image …) and label (or class …), perhaps split
    (train, val or test) and the column that ``group`` names; ``.txt`` has lines such as ``photos/17.jpg 3``. A list
    that says nothing of parts and is named ``…train…`` takes the lists named ``…val…`` and ``…test…`` beside it along.
    """
    rows, remarks = list(_rows(file, group)), []
    if others := {} if any(row.part for row in rows) else companions(file):
        rows = [row for part, place in others.items() for row in _rows(place, group, part)]
        remarks.append(f"{', '.join(place.name for place in others.values())} are read together as parts.")
    if not rows:
        raise UsageError(f"{file} lists no image; each line should be a path and a label")
    unique = _unique(rows)
    if len(unique) < len(rows):
        again = counted(len(rows) - len(unique), "line")
        remarks.append(f"Left out, since their images were listed before: {again}.")
    unique.sort(key=lambda row: (row.label, row.path))
    groups = [row.group for row in unique] if group is not None and group in _header(file) else None
    return Listing(
        files=[row.path for row in unique],
        names=[readable(row.path) for row in unique],
        labels=[row.label for row in unique],
        parts=[row.part for row in unique],
        groups=groups,
        remarks=tuple(remarks),
        root=file.parent,
    )


def companions(file: Path) -> dict[str, Path]:
    """The lists of all parts where this one is of training, and others are there."""
    if "train" not in file.name:
        return {}
    places = {part: file.with_name(file.name.replace("train", part)) for part in ("train", "val", "test")}
    found = {part: place for part, place in places.items() if place.is_file()}
    return found if len(found) > 1 else {}


def _unique(rows: Iterable[Row]) -> list[Row]:
    """Each image once; one with two labels or in two parts is refused."""
    first: dict[str, Row] = {}
    for row in rows:
        before = first.setdefault(row.path, row)
        for what, then, now in (("label", before.label, row.label), ("part", before.part, row.part)):
            if then != now:
                raise UsageError(
                    f'{readable(row.path)} has the {what} "{then}" in line {before.line} of {before.file} and "{now}" '
                    f"in line {row.line} of {row.file}; an image can have one only"
                )
    return list(first.values())


def _rows(file: Path, group: str | None, part: str = "") -> Iterator[Row]:
    lines = _spaced(file) if file.suffix.lower() == ".txt" else _columns(file, group)
    for line, (path, label, said, key) in lines:
        if not path or not label:
            raise UsageError(f"line {line} of {file} has no {'path' if not path else 'label'}")
        if said and said.lower() not in PARTS:
            raise UsageError(f'line {line} of {file} has the split "{readable(said)}"; it should be train, val or test')
        yield Row(file, line, _tidy(path), readable(label), part or PARTS.get(said.lower(), ""), key)


def _tidy(path: str) -> str:
    """A path without detours such as ``./`` and ``//``, of which most have none."""
    return Path(path).as_posix() if DETOUR.search(path) else path


def _spaced(file: Path) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    for number, line in _lines(file):
        words = line.rsplit(None, 1)
        if len(words) == 1:
            raise UsageError(
                f'line {number} of {file} is "{readable(line.strip())}"; it should be a path, a space and a label'
            )
        if words:
            yield number, (words[0].strip(), words[1], "", "")


def _columns(file: Path, group: str | None) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    header = _header(file)
    if not any(header):
        raise UsageError(f"{file} is empty; its first line should name the columns, such as path,label")
    where = [_column(header, names) for names in (PATH_COLUMNS, LABEL_COLUMNS, SPLIT_COLUMNS)]
    where.append(header.index(group) if group in header else None)
    bare = where[0] is None and len(header) == 2 and Path(header[0]).suffix.lower() in SUFFIXES
    if bare:
        where = [0, 1, None, None]
    if where[0] is None or where[1] is None:
        raise UsageError(
            f"{file} has the columns {readable(some_of(header, 8))}; it needs one named path (or file, image) and one "
            "named label (or class)"
        )
    for line, cells in islice(_cells(file), 0 if bare else 1, None):
        if len(cells) != len(header):
            raise UsageError(
                f"line {line} of {file} has {counted(len(cells), 'column')}, and the first line has {len(header)}"
            )
        path, label, said, key = (cells[column].strip() if column is not None else "" for column in where)
        if where[2] is not None and not said:
            raise UsageError(f"line {line} of {file} has no split; it should be train, val or test")
        yield line, (path, label, said, key)


def _column(header: list[str], names: Iterable[str]) -> int | None:
    lowered = [name.lower() for name in header]
    return next((lowered.index(name) for name in names if name in lowered), None)


def _header(file: Path) -> list[str]:
    if file.suffix.lower() == ".txt":
        return []
    return [cell.strip() for cell in next(_cells(file), (1, [""]))[1]]


def _cells(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV that are not empty; semicolons do where the first line has no comma."""
    first = next(_lines(file), (1, ""))[1]
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ";" if "," not in first and ";" in first else ","
    reader = csv.reader((line for _, line in _lines(file)), delimiter=delimiter)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} of {file} is no CSV: {error}") from None


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    if file.stat().st_size > LARGEST:
        raise UsageError(f"{file} has {file.stat().st_size:,} bytes, and a list of images at most {LARGEST:,}")
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            yield from _noted(file, lines)
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text; save it as UTF-8") from None


def _noted(file: Path, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, and a note every few seconds."""
    last = monotonic()
    for number, line in enumerate(lines, start=1):
        yield number, line
        if number % LINES == 0 and monotonic() - last > SECONDS_BETWEEN_NOTES:
            last = monotonic()
            log.info("%s lines of %s read", f"{number:,}", file)
