"""Output of predictions: a table, CSV, or JSON lines."""

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
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs cells that begin with one of these

Write = Callable[["FilePrediction"], None]


def as_csv(stream: IO[str], top: int, threshold: float) -> Write:
    """A header, then per file: path, prediction (or "unsure"), top classes with probabilities, error.

    No cell is a formula: a path that looks like one begins with "./", a class with an apostrophe.
    """
    writer = csv.writer(stream, lineterminator="\n")
    quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)  # a bare "\r" would begin another row
    ranks = [column for k in range(1, top + 1) for column in (f"class_{k}", f"probability_{k}")]
    writer.writerow(["file", "prediction", *ranks, "error"])

    def write(prediction: "FilePrediction") -> None:
        cells = [cell for name, p in prediction.top for cell in (no_formula(name), f"{p:.6f}")]
        label = "" if prediction.error else cells[0] if prediction.is_sure(threshold) else UNSURE
        padding = [""] * (2 * top - len(cells))
        path = str(prediction.path)
        file = f".{os.sep}{path}" if path.startswith(FORMULA) else path
        row = [file, label, *cells, *padding, no_formula(prediction.error or "")]
        (quoting if any("\r" in cell for cell in row) else writer).writerow(row)

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


def as_json_lines(stream: IO[str], threshold: float) -> Write:
    """One object per line: file, prediction (null if unsure), unsure, top, error."""

    def write(prediction: "FilePrediction") -> None:
        sure = prediction.is_sure(threshold)
        line = {
            "file": str(prediction.path),
            "prediction": prediction.top[0][0] if sure else None,
            "unsure": bool(prediction.top) and not sure,
            "top": [{"class": name, "probability": round(p, 6)} for name, p in prediction.top],
            "error": prediction.error,
        }
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    return write


def as_table(stream: IO[str], class_names: Sequence[str], threshold: float) -> Write:
    """Probability, class and file, further classes below. The file comes last because its length is unknown."""
    longest = max(map(len, class_names)) + (len(f"{UNSURE}: ") if threshold else 0)
    width = min(WIDEST_NAME, max(len("class"), longest))
    stream.write(f"{'':>7}  {'class':<{width}}  file\n")

    def write(prediction: "FilePrediction") -> None:
        path = printable(str(prediction.path))
        if prediction.error:
            stream.write(f"{'–':>7}  {'':<{width}}  {path}: {printable(prediction.error)}\n")
        for rank, (name, p) in enumerate(prediction.top):
            label = name if rank or prediction.is_sure(threshold) else f"{UNSURE}: {name}"
            label = shortened(printable(label), width)
            stream.write(f"{100 * p:5.1f} %  {label:<{width}}  {'' if rank else path}".rstrip() + "\n")

    return write


def printable(text: str) -> str:
    """Text without control characters: names are untrusted."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)
