"""The records of benchmarks/time_budget.py as a table for docs/choosing.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import duration, number
from tailcloud.reporting.tables import markdown

HEADER = ("", "neighbours", "asked", "taken", "", "of it trained", "what was trained", "balanced accuracy")
PARTS = {"head": "head on features", "all": "everything"}


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each command, and where it was measured."""
    ordered = sorted(records, key=lambda each: (each["device"], each["data"], each["budget"], each["neighbours"]))
    places = dict.fromkeys(
        f"{each['machine']['gpu'] or each['machine']['processor']}, {each['cores']} cores, torch {each['torch']}, "
        f"commit `{each['commit']}`"
        for each in ordered
    )
    return [markdown(HEADER, map(row, ordered)), "", *(f"- measured on {place}" for place in places)]


def row(record: dict[str, Any]) -> list[str]:
    device = record["machine"]["gpu"] or f"{record['cores']} CPU cores"
    when = " from the first step on" if record["late"] else ""
    epochs = " + ".join(map(str, record["epochs"]))
    shortened = f" of {record['planned']}" if record["remarks"] else ""
    limited = f", at most {record['max_count']} images of a class" if record.get("max_count") else ""
    what = f"{PARTS.get(record['train'], 'last layers')}, {record['size']} pixels, {epochs}{shortened} epochs{limited}"
    return [
        f"`{record['data']}`, {device}",
        f"{record['neighbours']}{when}" if record["neighbours"] else "none",
        duration(record["budget"]),
        duration(record["taken"]),
        f"{number(100 * record['over'], 0, signed=True)} %",
        f"{number(100 * record['trained'], 0)} %",
        what,
        number(record["balanced_accuracy"], 1),
    ]
