"""The records of benchmarks/kept_stage.py as a table for docs/choosing.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown

RULES = {
    "last": "the last stage, always",
    "first": "the first stage, always",
    "rise beyond the error": "the last stage if it gains more than the error",
    "tailcloud": "**as tailcloud does**",
}
HEADER = ("", "kept", "last stage kept", "top-1", "balanced accuracy")


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Rows for each data set, one for each rule, and where it was measured."""
    table = [row(record, rule) for record in records for rule in RULES]
    places = [
        f"- `{each['data']}`: `{each['command']}`, seeds 0 to {len(each['runs']) - 1}; "
        f"{each['machine']['gpu'] or each['machine']['processor']}, torch {each['machine']['torch']}, "
        f"commit `{each['commit']}`"
        for each in records
    ]
    return [markdown(HEADER, table), "", *places]


def row(record: dict[str, Any], rule: str) -> list[str]:
    found, runs = record["means"][rule], len(record["runs"])
    figures = [number(found[key], 1) for key in ("top1", "balanced_accuracy")]
    return [f"`{record['data']}`", RULES[rule], f"{found['keeps_last']} of {runs}", *figures]
