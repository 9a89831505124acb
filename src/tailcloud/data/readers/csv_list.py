"""List files: a CSV or TSV with a header, or a text file with a path and a label in each line."""

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic

from tailcloud.data.image_io import SUFFIXES
from tailcloud.data.readers.file_list import SPLIT_WORDS, FileList, printable_labels
from tailcloud.errors import UsageError
from tailcloud.formatting import composed, counted, readable, some_of

PATH_COLUMNS = ("path", "file", "image", "filename", "filepath", "file_name", "image_path")
LABEL_COLUMNS = ("label", "class", "category", "target")
LABEL_NAME = re.compile(  # in names of other columns; the short ones as words: "stage" has "tag" in it
    f"{'|'.join(LABEL_COLUMNS)}|species|genus|breed|taxon|(?<![a-z])(?:kind|tag)s?(?![a-z])"
)
PLAIN_NAME = re.compile(r"[^;|\t]+")  # of a column; others are several columns with another separator
SAMPLED_LINES = 1000  # of a list whose columns have other names
SPLIT_COLUMNS = ("split", "part", "subset")
MAX_BYTES = 2**28
REDUNDANT = re.compile(r"//|/$|(^|/)\.(/|$)")  # parts of a path that do not change where it leads
LINES_BETWEEN_CLOCKS, SECONDS_BETWEEN_NOTES = 10_000, 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListRow:
    """A line of a list."""

    file: Path
    line: int
    path: str
    label: str
    split: str
    group: str


def read_list(file: Path, group: str | None = None) -> FileList:
    """The images that a list names, sorted by label and path; paths are relative to the list, or absolute.

    ``.csv`` and ``.tsv`` have a header with the columns path (or file, image …) and label (or class …), and optionally
    split (train, val or test) and the column that ``group`` names; ``.txt`` has lines such as ``photos/17.jpg 3``. If a
    list named ``…train…`` says nothing about splits, the lists named ``…val…`` and ``…test…`` beside it are read too.
    """
    rows, remarks = list(_rows(file, group)), []
    if files := {} if any(row.split for row in rows) else lists_of_splits(file):
        rows = [row for split, place in files.items() for row in _rows(place, group, split)]
        remarks += together_remark(files)
    if not rows:
        raise UsageError(f"{file} lists no images; each line should be a path and a label")
    unique = _unique(rows)
    remarks += _unused_columns_remarks(file)
    remarks += repeated_remark(len(rows) - len(unique))
    unique.sort(key=lambda row: (row.label, row.path))
    groups = [row.group for row in unique] if group is not None and group in _header(file) else None
    return FileList(
        files=[row.path for row in unique],
        names=[readable(row.path) for row in unique],
        labels=printable_labels(file, [row.label for row in unique]),
        splits=[row.split for row in unique],
        groups=groups,
        remarks=tuple(remarks),
        root=file.parent,
    )


def other_columns(file: Path) -> list[str]:
    """The columns of a list that are neither path nor label nor split."""
    header = _header(file)
    known = {_column(header, names) for names in (PATH_COLUMNS, LABEL_COLUMNS, SPLIT_COLUMNS)}
    return [name for place, name in enumerate(header) if name and place not in known]


def _unused_columns_remarks(file: Path) -> Iterator[str]:
    """A remark for each kind of column of which a list has several: only the first by rank is read."""
    header = _header(file)
    for what, names in (("Paths", PATH_COLUMNS), ("Classes", LABEL_COLUMNS), ("Splits", SPLIT_COLUMNS)):
        used = _column(header, names)
        others = [name for place, name in enumerate(header) if name.lower() in names and place != used]
        if used is not None and others:
            yield f'{what} are those of the column "{readable(header[used])}", not of {readable(some_of(others))}.'


def lists_of_splits(file: Path) -> dict[str, Path]:
    """The lists of all splits, if this one is named after training and others are beside it; else none."""
    if "train" not in file.name:
        return {}
    places = {split: file.with_name(file.name.replace("train", split)) for split in ("train", "val", "test")}
    present = {split: place for split, place in places.items() if place.is_file()}
    return present if len(present) > 1 else {}


def together_remark(files: Mapping[str, Path]) -> list[str]:
    """A remark on the lists of splits that are read together."""
    return [f"{', '.join(place.name for place in files.values())} are read together as splits."] if files else []


def repeated_remark(lines: int) -> list[str]:
    """A remark on lines that are left out because an earlier line lists the same image."""
    return [f"{counted(lines, 'line')} left out, because an earlier line lists the same image."] if lines else []


def _unique(rows: Iterable[ListRow]) -> list[ListRow]:
    """Each image once; one with two labels or in two splits is refused."""
    first: dict[str, ListRow] = {}
    for row in rows:
        before = first.setdefault(row.path, row)
        for what, then, now in (("label", before.label, row.label), ("split", before.split, row.split)):
            if then != now:
                raise UsageError(
                    f'{readable(row.path)} has the {what} "{readable(then)}" in line {before.line} of {before.file} '
                    f'and "{readable(now)}" in line {row.line} of {row.file}; an image can have only one'
                )
    return list(first.values())


def _rows(file: Path, group: str | None, split: str = "") -> Iterator[ListRow]:
    lines = _text_lines(file) if file.suffix.lower() == ".txt" else _csv_lines(file, group)
    for line, (path, label, word, key) in lines:
        if not path or not label:
            what = "path" if not path else "label"
            raise UsageError(f"line {line} of {file} has no {what}; write one there, or remove the line")
        if word and word.lower() not in SPLIT_WORDS:
            raise UsageError(f'line {line} of {file} has the split "{readable(word)}"; it should be train, val or test')
        where = split or SPLIT_WORDS.get(word.lower(), "")
        yield ListRow(file, line, _normalized(path), composed(label), where, key)


def _normalized(path: str) -> str:
    """A path without redundant ``./`` and ``//``; most have none, and are not parsed."""
    return Path(path).as_posix() if REDUNDANT.search(path) else path


def _text_lines(file: Path) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    """Line number, and path, label, no split, no group."""
    for number, line in _lines(file):
        words = line.rsplit(None, 1)
        if len(words) == 1:
            raise UsageError(
                f'line {number} of {file} is "{readable(line.strip())}"; it should be a path, a space and a label'
            )
        if words:
            yield number, (words[0].strip(), words[1], "", "")


def _csv_lines(file: Path, group: str | None) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    """Line number, and path, label, split, group."""
    header = _header(file)
    if not any(header):
        raise UsageError(f"{file} is empty; its first line should name the columns, such as path,label")
    columns = [_column(header, names) for names in (PATH_COLUMNS, LABEL_COLUMNS, SPLIT_COLUMNS)]
    columns.append(header.index(group) if group in header else None)
    no_header = columns[0] is None and len(header) == 2 and Path(header[0]).suffix.lower() in SUFFIXES
    if no_header:
        columns = [0, 1, None, None]
    if columns[0] is None or columns[1] is None:
        raise UsageError(
            f"{file} has the columns {readable(some_of(header, 8))}; it needs one named path (or file, image) and one "
            f"named label (or class){_renames(file, columns)}"
        )
    for line, cells in islice(_cells(file), 0 if no_header else 1, None):
        if len(cells) != len(header):
            raise UsageError(
                f"line {line} of {file} has {counted(len(cells), 'column')}, and the first line has {len(header)}"
            )
        path, label, split, key = (cells[column].strip() if column is not None else "" for column in columns)
        if columns[2] is not None and not split:
            raise UsageError(f"line {line} of {file} has no split; it should be train, val or test")
        yield line, (path, label, split, key)


def _renames(file: Path, columns: Sequence[int | None]) -> str:
    """Which columns could be path and label by what is in them, as the end of a sentence."""
    header, *rows = ([cell.strip() for cell in cells] for _, cells in islice(_cells(file), SAMPLED_LINES))
    taken = {column for column in columns if column is not None}
    values = {
        place: [cells[place] for cells in rows if len(cells) == len(header)]
        for place, name in enumerate(header)
        if place not in taken and PLAIN_NAME.fullmatch(name)
    }
    renames = []
    if columns[0] is None:
        paths = [place for place, cells in values.items() if cells and all(map(_is_image_name, cells))]
        renames += [(place, "path") for place in paths[:1]]
    if columns[1] is None:
        renames += [(place, "label") for place in _like_labels(header, values)[:1]]
    said = " and ".join(f'"{readable(header[place])}" to {name}' for place, name in renames)
    return f": rename {said}" if said else ""


def _like_labels(header: Sequence[str], values: Mapping[int, Sequence[str]]) -> list[int]:
    """The columns that look like labels, the likeliest first: by their name, or by words that repeat.

    Numbers that repeat are labels only if no other column has such numbers: several may be a column for each class.
    """
    repeated = [
        place
        for place, cells in values.items()
        if 1 < len(set(cells)) <= len(cells) / 2 and not any(map(_is_image_name, cells))
    ]
    named = [place for place in values if LABEL_NAME.search(header[place].lower())]
    numbers = [place for place in named if values[place] and all(map(_is_number, values[place]))]
    if len(numbers) > 1:
        named = [place for place in named if place not in numbers]
    words = [place for place in repeated if not any(_is_number(cell) for cell in values[place])]
    return [*named, *words, *(repeated if len(repeated) == 1 else [])]


def _is_image_name(cell: str) -> bool:
    return Path(cell).suffix.lower() in SUFFIXES


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal()


def _column(header: list[str], names: Iterable[str]) -> int | None:
    lowered = [name.lower() for name in header]
    return next((lowered.index(name) for name in names if name in lowered), None)


def _header(file: Path) -> list[str]:
    if file.suffix.lower() == ".txt":
        return []
    return [cell.strip() for cell in next(_cells(file), (1, [""]))[1]]


def _cells(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV that are not empty; semicolons separate if the first line has them and no comma."""
    first = next(_lines(file), (1, ""))[1]
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ";" if "," not in first and ";" in first else ","
    reader = csv.reader((line for _, line in _lines(file)), delimiter=delimiter)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} of {file} is not valid CSV: {error}") from None


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1; progress is logged every few seconds."""
    if file.stat().st_size > MAX_BYTES:
        raise UsageError(
            f"{file} has {file.stat().st_size:,} bytes; a list of images may have {MAX_BYTES:,}, or more if it is a "
            ".txt list of paths and whole numbers"
        )
    last = monotonic()
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            for number, line in enumerate(lines, start=1):
                yield number, line
                if number % LINES_BETWEEN_CLOCKS == 0 and monotonic() - last > SECONDS_BETWEEN_NOTES:
                    last = monotonic()
                    log.info("%s lines of %s read", f"{number:,}", file)
    except UnicodeDecodeError:
        raise UsageError(f'{file} is not UTF-8 text; save it as UTF-8, in a spreadsheet as "CSV UTF-8"') from None
