"""The records of benchmarks/first_step.py as a table for docs/choosing.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown

MARKS = {
    "headers_read": "the folder is known",
    "recipe_chosen": "a recipe is chosen",
    "first_step": "first step",
    "end": "end",
}
TURNS = {"first": "first time on this machine", "again": "again"}


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Seconds from the start of the command to each mark, for both turns of each record."""
    rows = [
        [f"{record['images']:,} images, {TURNS[row['turn']]}", record["budget"], *seconds(row)]
        for record in records
        for row in record["rows"]
    ]
    places = [
        f"- measured on {each['machine']['gpu'] or each['machine']['processor']}, {each['cores']} cores, "
        f"torch {each['machine']['torch']}, commit `{each['commit']}`"
        for each in records
    ]
    return [markdown(["seconds until", "budget", *MARKS.values()], rows), "", *places]


def seconds(row: dict[str, Any]) -> list[str]:
    return [number(row["seconds"][mark], 1) for mark in MARKS]
