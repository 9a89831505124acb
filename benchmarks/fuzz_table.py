"""The record of benchmarks/fuzz.py as a table for docs/robustness.md."""

from typing import Any

from tailcloud.reporting.tables import markdown

HEADER = ("what is read", "damaged files", "crashes")


def parts(record: dict[str, Any]) -> list[str]:
    """A row for each reader, and where it ran."""
    about = record["machine"]
    rows = [[one["reader"], f"{one['cases']:,}", str(len(one["crashes"]))] for one in record["readers"]]
    origin = f"{about['processor']}, torch {about['torch']}, commit `{record['commit']}`"
    minutes = f"{record['seconds'] / 60:.0f} minutes"
    return [markdown(HEADER, rows), "", f"Seed {record['seed']}, {minutes} on {origin}."]
