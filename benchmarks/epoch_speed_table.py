"""The tables of epoch_speed.py and ablation.py from their records: for the terminal, and docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import NOT_MEASURED, duration, number
from tailcloud.reporting.tables import markdown

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
    """The fastest of the plain loops."""
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
    return NOT_MEASURED if seconds is None else f"{seconds:#.3g}".rstrip(".")


def about(problem: dict[str, Any]) -> str:
    """What was trained."""
    epochs = " + ".join(map(str, problem["epochs"].values()))
    images = f"{problem['images']['train']:,} training and {problem['images']['test']:,} test images"
    return f"{problem['recipe']}, {problem['backbone']}, {images}, a whole run is {epochs} epochs"


def limits(problem: dict[str, Any]) -> str:
    """What the machine can do, and the least that a run takes by that."""
    peak, floor = problem["peak"], problem["floor"]
    can = f"{peak['flops'] / 1e9:,.0f} GFLOP/s and {peak['bytes'] / 1e9:,.0f} GB/s at most ({peak['source']})"
    least = f"{significant(floor['arithmetic'])} s by arithmetic and {significant(floor['memory'])} s by memory"
    return f"{can}, so a run takes at least {least}"


def parts(record: dict[str, Any]) -> list[str]:
    """For docs/performance.md, a table for each problem."""
    where = record["machine"]
    origin = f"{where['gpu'] or where['processor']}, {record['cores']} cores, torch {where['torch']}"
    counted = f"{record['warm_up']} epochs of warm-up, {record['epochs']} that count, fastest of {record['repeats']}"
    found = [f"Measured on {origin}, commit `{record['commit']}`; {counted}.\n"]
    for problem in record["problems"]:
        lines = [cells(problem, row) for row in problem["rows"]]
        found += [f"**{about(problem)}**; {limits(problem)}.\n", markdown(HEADER, lines) + "\n"]
    return found


def changes(record: dict[str, Any]) -> list[str]:
    """What each step is worth: a table of those that were taken, and one of those that were not."""
    where = record["machine"]
    found = [change_table(record, taken) + "\n" for taken in (True, False)]
    origin = f"{where['processor']}, one thread, torch {where['torch']}, commit `{record['commit']}`"
    return [*found, f"Measured by `python benchmarks/ablation.py` on {origin}."]


def change_table(record: dict[str, Any], taken: bool) -> str:
    chosen = [change for change in record["changes"] if change["taken"] is taken]
    title, word = ("taken", "without it") if taken else ("left out", "with it")
    header = [title, "predicted", *(f"{data}, {word}" for data in chosen[0]["problems"])]
    return markdown(header, [[one["name"], one["predicted"], *map(longer, one["problems"].values())] for one in chosen])


def longer(found: dict[str, float]) -> str:
    return f"{number(100 * (found['ratio'] - 1), 0, signed=True)}\u00a0%"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """For a terminal; a row without figures is its name and the reason."""
    full = [line for line in lines if NOT_MEASURED not in line[-1:]]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    first = max(len(line[0]) for line in lines)
    return [f"{line[0]:<{first}}  {_rest(line, widths) if line in full else line[1]}" for line in lines]


def _rest(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
