"""Rows of a CSV file that a spreadsheet opens: no cell is a formula, and no name breaks a row."""

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailcloud.formatting import valid_text

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs cells that begin with one of these

WriteRow = Callable[[Sequence[str]], object]


def row_writer(stream: "SupportsWrite[str]") -> WriteRow:
    """A function that writes one row. Bytes of file names that are not UTF-8 become "\ufffd"."""
    plain = csv.writer(stream, lineterminator="\n")
    quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)  # a bare "\r" would begin another row

    def write(cells: Sequence[str]) -> None:
        cells = list(map(valid_text, cells))
        (quoting if any("\r" in cell for cell in cells) else plain).writerow(cells)

    return write


def no_formula(text: str) -> str:
    """A cell that a spreadsheet does not run as a formula: names are untrusted. Numbers stay numbers."""
    if not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def path_cell(path: Path | str) -> str:
    """A path as a cell that is no formula and still leads to the file."""
    text = str(path)
    return f".{os.sep}{text}" if text.startswith(FORMULA) else text
