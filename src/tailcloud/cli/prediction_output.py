"""Output of predictions: a table, CSV, JSON lines, or how many images each class has."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tailcloud.csv_cells import no_formula, path_cell, row_writer
from tailcloud.formatting import counted, readable, shortened, valid_text

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from tailcloud.serving.predict import FilePrediction

UNSURE = "unsure"
WIDEST_NAME = 32
CLASSES_COUNTED = 20  # in the summary

Write = Callable[["FilePrediction"], None]


def as_csv(stream: "SupportsWrite[str]", top: int, threshold: float) -> Write:
    """A header, then per file: path, prediction (or "unsure"), top classes with probabilities, error.

    No cell is a formula: a path that looks like one begins with "./", a class with an apostrophe.
    """
    write_row = row_writer(stream)
    ranks = [column for k in range(1, top + 1) for column in (f"class_{k}", f"probability_{k}")]
    write_row(["file", "prediction", *ranks, "error"])

    def write(prediction: "FilePrediction") -> None:
        cells = [cell for name, p in prediction.top[:top] for cell in (no_formula(name), f"{p:.6f}")]
        label = "" if prediction.error else cells[0] if prediction.is_sure(threshold) else UNSURE
        padding = [""] * (2 * top - len(cells))
        write_row([path_cell(prediction.path), label, *cells, *padding, no_formula(prediction.error or "")])

    return write


def as_json_lines(stream: "SupportsWrite[str]", top: int, threshold: float) -> Write:
    """One object per line: file, prediction (null if unsure), unsure, top, error."""

    def write(prediction: "FilePrediction") -> None:
        sure = prediction.is_sure(threshold)
        line = {
            "file": str(prediction.path),
            "prediction": prediction.top[0][0] if sure else None,
            "unsure": bool(prediction.top) and not sure,
            "top": [{"class": name, "probability": round(p, 6)} for name, p in prediction.top[:top]],
            "error": prediction.error,
        }
        stream.write(valid_text(json.dumps(line, ensure_ascii=False)) + "\n")

    return write


def as_table(stream: "SupportsWrite[str]", class_names: Sequence[str], top: int, threshold: float) -> Write:
    """Probability, class and file, further classes below. The file comes last because its length is unknown."""
    longest = max(map(len, class_names)) + (len(f"{UNSURE}: ") if threshold else 0)
    width = min(WIDEST_NAME, max(len("class"), longest))
    stream.write(f"{'':>7}  {'class':<{width}}  file\n")

    def write(prediction: "FilePrediction") -> None:
        path = readable(str(prediction.path))
        if prediction.error:
            stream.write(f"{'–':>7}  {'':<{width}}  {path}: {readable(prediction.error)}\n")
        for rank, (name, p) in enumerate(prediction.top[:top]):
            label = name if rank or prediction.is_sure(threshold) else f"{UNSURE}: {name}"
            label = shortened(readable(label), width)
            stream.write(f"{100 * p:5.1f} %  {label:<{width}}  {'' if rank else path}".rstrip() + "\n")

    return write


class PredictionCounts:
    """Counts predictions: images of each class, unsure ones, and files that could not be read."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.classes: Counter[str] = Counter()
        self.images = self.unsure = self.failed = self.odd_names = 0

    def add(self, prediction: "FilePrediction") -> None:
        """Count one prediction."""
        self.images += 1
        self.odd_names += valid_text(path := str(prediction.path)) != path
        if prediction.error is not None:
            self.failed += 1
        elif prediction.is_sure(self.threshold):
            self.classes[prediction.top[0][0]] += 1
        else:
            self.unsure += 1

    def lines(self) -> Iterator[str]:
        """The counts, largest classes first."""
        largest = self.classes.most_common(CLASSES_COUNTED)
        rows = [(number, readable(name)) for name, number in largest]
        if others := len(self.classes) - len(largest):
            images = self.classes.total() - sum(number for number, _ in rows)
            rows.append((images, f"({counted(others, 'other class', 'other classes')})"))
        if self.unsure or self.threshold:
            rows.append((self.unsure, f"({UNSURE}: below {100 * self.threshold:g} %)"))
        if self.failed:
            rows.append((self.failed, "(could not be read)"))
        width = max((len(f"{number:,}") for number, _ in rows), default=0)
        yield from (f"{number:>{width},}  {label}" for number, label in rows)
