"""The record of benchmarks/step_speed.py as a table for docs/performance.md."""

from typing import Any

from tailcloud.bench import read_table
from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown


def parts(record: dict[str, Any]) -> list[str]:
    """A row for each recipe, beside the first one; then where it was measured."""
    labels = {row.key: row.label for row in read_table("ladder").rows}
    first, runs = record["rows"][0], record["runs"]
    header = [
        "",
        "alone, ms an epoch",
        f"{runs} runs, ms each",
        "× the first row, alone",
        f"× the first row, {runs} runs",
    ]
    rows = [
        [
            labels[row["row"]],
            *(number(1000 * row[way], 0) for way in ("alone", "together")),
            *(number(row[way] / first[way], 2) for way in ("alone", "together")),
        ]
        for row in record["rows"]
    ]
    about = record["machine"]
    place = f"{about['gpu']}, {about['cores']} cores, torch {about['torch']}"
    what = f"{record['images']:,} random images of the shape of `{record['data']}`, without evaluation"
    return [
        markdown(header, rows),
        "",
        f"{what}. Measured on {place}, commit `{record['commit']}`.",
    ]
