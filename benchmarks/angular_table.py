"""gcl-angular beside gcl, on the tuning parts and in every cell, for docs/methods.md."""

from collections.abc import Iterator, Sequence
from typing import Any

from second_stage_table import TUNING
from tune_second_stage import FIRST

from tailcloud.bench import PaperTable
from tailcloud.formatting import NOT_MEASURED
from tailcloud.reporting.tables import DatasetTable, Summary, markdown, mean_std

PLAIN, ANGULAR = "gcl", "gcl-angular"


def parts(tables: Sequence[DatasetTable], choices: Sequence[dict[str, Any]], table: PaperTable) -> Iterator[str]:
    """A row for each data set on which gcl-angular was measured, the tuning parts first."""
    runs = [run for record in choices for run in record["runs"] if run["candidate"] == FIRST]
    (paper,) = (row.paper for row in table.rows if row.key == PLAIN)
    published = {spec: f"{figure}" for spec, figure in zip(table.columns, paper, strict=True)}
    rows = []
    for data in sorted(tables, key=lambda one: (TUNING not in one.spec, one.spec)):
        angular = next((row for row in data.rows if row.label == ANGULAR), None)
        if angular:
            plain = mean_std(run["balanced_accuracy"] for run in runs if run["spec"] == data.spec)
            after = angular.summary("balanced_accuracy")
            rows.append([data.spec, said(plain), said(after), published.get(data.spec, NOT_MEASURED)])
    yield f"{markdown(['', 'gcl', 'gcl-angular', 'published for GCL'], rows)}\n"
    yield "Balanced accuracy of the last epoch in percent, mean ± deviation over seeds, and how many these are."


def said(summary: Summary) -> str:
    return f"{summary.text()} ({summary.n})"
