"""The record of benchmarks/week_of_use.py as a table for docs/robustness.md."""

from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown

WORDS = {
    "epochs": "epochs of one run on digits",
    "streamed": "epochs of one run from files, with a decoder process",
    "predictions": "calls of `LongTailClassifier.predict`, of an array or of a file in turn",
    "loaded": "calls of `predict_proba` of a loaded model",
    "runs": "runs by `tailcloud.train`, one after the other, with reports",
    "fleet": "runs of one command, side by side",
}
HEADER = ("", "memory, MB: start", "middle", "end", "per 1,000", "handles", "threads", "processes", "disk, MB")


def parts(record: dict[str, Any]) -> list[str]:
    """A row for each part, and where it was measured."""
    about = record["machine"]
    origin = f"{about['processor']}, {about['cores']} cores, torch {about['torch']}, commit `{record['commit']}`"
    return [markdown(HEADER, map(row, record["parts"])), "", f"Measured on {origin}."]


def row(part: dict[str, Any]) -> list[str]:
    memory = part["resident_mb"]
    slope = number(memory["slope_per_1000"], 2, signed=True)
    resident = [number(memory[when], 1) for when in ("start", "middle", "end")]
    counts = [ends(part[figure], 0) for figure in ("handles", "threads", "processes")]
    return [f"{part['units']:,} {WORDS[part['part']]}", *resident, slope, *counts, ends(part["disk_mb"], 2)]


def ends(figure: dict[str, float], digits: int) -> str:
    """At the start and at the end; one number if they are the same."""
    both = dict.fromkeys(number(figure[when], digits) for when in ("start", "end"))
    return " → ".join(both)
