"""The table of benchmarks/speed.py, from its record: for the terminal, and for docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.wording import NOT_MEASURED, duration, number

BASELINE = "plain loop"
HEADER = (
    "",
    "stage 1, s / epoch",
    "stage 2, s / epoch",
    "start-up, s",
    "whole run",
    "× plain loop",
    "memory, MB",
    "of arithmetic floor",
    "of memory floor",
)


def whole(problem: dict[str, Any], row: dict[str, Any]) -> float | None:
    """Seconds of a whole run, start-up apart: those of an epoch times its epochs."""
    if row["reason"]:
        return None
    return float(sum(problem["epochs"][stage] * seconds for stage, seconds in row["seconds"].items()))


def baseline(problem: dict[str, Any]) -> float | None:
    """The fastest of the obvious loops."""
    found = [whole(problem, row) for row in problem["rows"] if row["name"].startswith(BASELINE)]
    return min((seconds for seconds in found if seconds is not None), default=None)


def cells(problem: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """A row of the table; one that was not measured says why."""
    took, reference, floor = whole(problem, row), baseline(problem), problem["floor"]
    if took is None:
        return [row["name"], f"not measured: {row['reason']}", *[NOT_MEASURED] * (len(HEADER) - 2)]
    per_epoch = [significant(row["seconds"].get(stage)) for stage in ("stage1", "stage2")]
    return [
        row["name"],
        *per_epoch,
        number(row["start"], 1),
        duration(took),
        number(reference / took if reference else None, 2),
        number(row["memory"] / 1e6, 0),
        *(f"{number(100 * floor[kind] / took)}\u00a0%" for kind in ("arithmetic", "memory")),
    ]


def significant(seconds: float | None) -> str:
    """Three digits."""
    return NOT_MEASURED if seconds is None else f"{seconds:#.3g}"


def about(problem: dict[str, Any]) -> str:
    """What was trained."""
    epochs = " + ".join(map(str, problem["epochs"].values()))
    images = f"{problem['images']['train']:,} training and {problem['images']['test']:,} test images"
    return f"{problem['recipe']}, {problem['backbone']}, {images}, a whole run is {epochs} epochs"


def limits(peak: dict[str, Any]) -> str:
    """What the machine can do."""
    return f"at most {peak['flops'] / 1e9:,.0f} GFLOP/s and {peak['bytes'] / 1e9:,.0f} GB/s ({peak['source']})"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """For a terminal; a row without figures is its name and the reason."""
    full = [line for line in lines if NOT_MEASURED not in line[-1:]]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    first = max(len(line[0]) for line in lines)
    return [f"{line[0]:<{first}}  {_rest(line, widths) if line in full else line[1]}" for line in lines]


def _rest(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
