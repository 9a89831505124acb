"""The record of benchmarks/speed.py: how a whole command follows from what was measured, and the table of all rows."""

from collections.abc import Sequence
from itertools import groupby
from statistics import median
from typing import Any

from tailcloud.formatting import duration, number
from tailcloud.reporting.tables import markdown

Row = dict[str, Any]
Commands = Sequence[dict[str, Any]]

EXTRAPOLATED_FROM = (0.1, 0.2)  # shares of the epochs
PLAIN = "plain-loop"
HEADER = (
    "",
    "runs",
    "wall clock",
    "seconds a run",
    "× plain loop",
    "longest log",
    "outside of epochs",
    "memory, GB",
    "measured",
)
TITLES = {
    "alone-cold": "one run, kernels not compiled yet",
    "alone-warm": "one run",
    "bench": "a table whose runs share first stages",
    PLAIN: "plain loop",
    f"{PLAIN}-no-workers": "plain loop, no workers",
}
ORDER = ("plain", "alone", "fleet", "bench")


def is_complete(row: Row) -> bool:
    """Whether there is a figure: of the plain loop, of the whole command, or of two shorter ones."""
    commands = row["commands"]
    return (is_plain(row) and bool(commands)) or is_whole(row) or len({command["share"] for command in commands}) > 1


def is_plain(row: Row) -> bool:
    return str(row["row"]).startswith(PLAIN)


def is_whole(row: Row) -> bool:
    """Whether the whole command was measured."""
    return any(command.get("share") == 1 for command in row["commands"])


def at_share(commands: Commands, share: float, figure: str) -> float:
    """A figure of a command with that share of the epochs: measured, or on the line through the two longest others."""
    known = {float(command["share"]): value(command, figure) for command in commands}
    if share in known:
        return known[share]
    (low, lower), (high, higher) = sorted(known.items())[-2:]
    return lower + (share - low) * (higher - lower) / (high - low)


def value(command: dict[str, Any], figure: str) -> float:
    return float(command["log"]["longest"] if figure == "longest" else command[figure])


def whole(row: Row) -> dict[str, float]:
    """Seconds of the whole command: ``wall``, and those that are ``epochs`` of its longest run."""
    if not is_plain(row):
        return {"wall": at_share(row["commands"], 1.0, "wall"), "epochs": at_share(row["commands"], 1.0, "longest")}
    (command,) = row["commands"]
    seconds = command["epoch_seconds"]
    epochs = sum(all_epochs(seconds[stage], count) for stage, count in row["epochs"].items())
    return {"wall": command["wall"] - sum(map(sum, seconds.values())) + epochs, "epochs": epochs}


def all_epochs(seconds: Sequence[float], count: int) -> float:
    """So many epochs of the plain loop: the first one, which starts workers, and others that take the median."""
    return seconds[0] + (count - 1) * median(seconds[1:])


def merged(record: dict[str, Any], row: Row) -> dict[str, Any]:
    """The record with a row instead of the one of the same name on the same data."""
    others = [one for one in record["rows"] if key(one) != key(row)]
    return {"rows": sorted([*others, row], key=place)}


def key(row: Row) -> tuple[str, str]:
    return row["trains"], row["row"]


def place(row: Row) -> tuple[Any, ...]:
    """In the table: by kind, then by the number of runs; cold before warm."""
    return ORDER.index(row["row"].partition("-")[0]), row["trains"], row["runs"], row["row"]


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """A row of the table."""
    found, plain = whole(row), plain_seconds(row["trains"], rows)
    a_run = found["wall"] / row["runs"]
    memory = max((command["memory"] for command in row["commands"] if command["memory"] is not None), default=None)
    return [
        title(row),
        str(row["runs"]),
        duration(found["wall"]),
        number(a_run),
        number(plain and plain / a_run),
        duration(found["epochs"]),
        f"{number(100 * (1 - found['epochs'] / found['wall']), 0)}\u00a0%",
        number(None if memory is None else memory / 1e9),
        how(row),
    ]


def title(row: Row) -> str:
    return TITLES.get(row["row"]) or f"{row['runs']} seeds in one command"


def plain_seconds(trains: str, rows: Sequence[Row]) -> float | None:
    """A run by the plain loop, the faster one if there are two."""
    return min((whole(row)["wall"] for row in rows if is_plain(row) and row["trains"] == trains), default=None)


def how(row: Row) -> str:
    """What was measured."""
    if is_plain(row):
        counts = " + ".join(str(len(seconds)) for seconds in row["commands"][0]["epoch_seconds"].values())
        return f"{counts} epochs, the others alike"
    shorter = [command for command in row["commands"] if command["share"] != 1]
    line = f"line through {' and '.join(map(epochs, shorter))} epochs"
    if not is_whole(row):
        return line
    return f"whole; {line}: {duration(at_share(shorter, 1.0, 'wall'))}" if len(shorter) > 1 else "whole"


def epochs(row: dict[str, Any]) -> str:
    return " + ".join(map(str, row["epochs"].values()))


def about_row(row: Row) -> str:
    """A row as soon as it is there, for the terminal."""
    found = whole(row)
    a_run = number(found["wall"] / row["runs"])
    outside = number(100 * (1 - found["epochs"] / found["wall"]), 0)
    return f"{row['row']}: {duration(found['wall'])}, {a_run} s a run, {outside} % outside of epochs ({how(row)})"


def parts(record: dict[str, Any]) -> list[str]:
    """For docs/performance.md: the table, then what was trained and where."""
    rows = record["rows"]
    return [markdown(HEADER, [cells(row, rows) for row in rows]), "", *trained(rows), *origins(rows)]


def trained(rows: Sequence[Row]) -> list[str]:
    """What the rows trained, and on which images."""
    found = dict.fromkeys(f"{row['trains']}, {epochs(row)} epochs, {row['images']}" for row in rows)
    return [f"- {text}" for text in found]


def origins(rows: Sequence[Row]) -> list[str]:
    """Machine, versions and commit, each with its rows."""
    lines = []
    for origin, members in groupby(sorted(rows, key=lambda row: (origin_of(row), place(row))), key=origin_of):
        lines.append(f"- {', '.join(member['row'] for member in members)}: {origin}")
    return lines


def origin_of(row: Row) -> str:
    about = row["machine"]
    where = about["gpu"] or about["processor"]
    return f"{where}, {about['cores']} cores, torch {about['torch']}, commit `{row['commit']}`"
