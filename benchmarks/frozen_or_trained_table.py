"""The records of benchmarks/frozen_or_trained.py as a table for docs/choosing.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown

HEADER = ("training images", "what is trained", "pixels", "epochs", "steps", "balanced accuracy")
PARTS = {"head": "head on features", "last": "last layers", "all": "everything"}


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each command, and where it was measured."""
    order = list(PARTS)
    ordered = sorted(
        records, key=lambda each: (each["images"], order.index(each["part"]), each["size"], each["epochs"])
    )
    places = dict.fromkeys(
        f"{each['machine']['processor']}, torch {each['machine']['torch']}, commit `{each['commit']}`"
        for each in ordered
    )
    tested = {f"`{each['data']}`, {each['test_images']} test images" for each in ordered}
    return [markdown(HEADER, map(row, ordered)), "", *(f"- {' and '.join(sorted(tested))}; {each}" for each in places)]


def row(record: dict[str, Any]) -> list[str]:
    steps = "" if record["steps"] is None else str(record["steps"])
    accuracy = number(record["balanced_accuracy"], 1)
    part = PARTS[record["part"]]
    return [str(record["images"]), part, str(record["size"]), str(record["epochs"]), steps, accuracy]
