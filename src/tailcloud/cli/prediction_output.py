"""Answers of a model as people and programs read them: lines of a table, CSV, or JSON lines."""

import csv
import json
import os
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

from tailcloud.formatting import shortened

if TYPE_CHECKING:
    from tailcloud.serving.predict import FilePrediction

UNSURE = "unsure"
WIDEST_NAME = 32
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet takes for a command

Write = Callable[["FilePrediction"], None]


def as_csv(stream: IO[str], top: int, threshold: float) -> Write:
    """A head, then per file: its path, the prediction (or "unsure"), the top classes with probabilities, the error.

    No cell is a formula: a path that looks like one begins with "./", a class with an apostrophe.
    """
    writer = csv.writer(stream, lineterminator="\n")
    quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)  # a bare "\r" would begin another row
    ranks = [column for k in range(1, top + 1) for column in (f"class_{k}", f"probability_{k}")]
    writer.writerow(["file", "prediction", *ranks, "error"])

    def write(answer: "FilePrediction") -> None:
        cells = [cell for name, p in answer.top for cell in (no_formula(name), f"{p:.6f}")]
        prediction = "" if answer.error else cells[0] if answer.sure(threshold) else UNSURE
        padding = [""] * (2 * top - len(cells))
        path = str(answer.path)
        place = f".{os.sep}{path}" if path.startswith(FORMULA) else path
        row = [place, prediction, *cells, *padding, no_formula(answer.error or "")]
        (quoting if any("\r" in cell for cell in row) else writer).writerow(row)

    return write


def no_formula(text: str) -> str:
    """A cell that a spreadsheet shows and does not compute: a name may come from a stranger. Numbers stay numbers."""
    if not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def as_json_lines(stream: IO[str], threshold: float) -> Write:
    """An object a line: file, prediction (null where unsure), unsure, top, error."""

    def write(answer: "FilePrediction") -> None:
        sure = answer.sure(threshold)
        line = {
            "file": str(answer.path),
            "prediction": answer.top[0][0] if sure else None,
            "unsure": bool(answer.top) and not sure,
            "top": [{"class": name, "probability": round(p, 6)} for name, p in answer.top],
            "error": answer.error,
        }
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    return write


def as_table(stream: IO[str], class_names: Sequence[str], threshold: float) -> Write:
    """Probability, class and file; further classes below. The file comes last: nobody knows how long names will be."""
    longest = max(map(len, class_names)) + (len(f"{UNSURE}: ") if threshold else 0)
    width = min(WIDEST_NAME, max(len("class"), longest))
    stream.write(f"{'':>7}  {'class':<{width}}  file\n")

    def write(answer: "FilePrediction") -> None:
        path = printable(str(answer.path))
        if answer.error:
            stream.write(f"{'–':>7}  {'':<{width}}  {path}: {printable(answer.error)}\n")
        for rank, (name, p) in enumerate(answer.top):
            said = name if rank or answer.sure(threshold) else f"{UNSURE}: {name}"
            said = shortened(printable(said), width)
            stream.write(f"{100 * p:5.1f} %  {said:<{width}}  {'' if rank else path}".rstrip() + "\n")

    return write


def printable(text: str) -> str:
    """Without what could steer a terminal: a name may come from a stranger."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)
