"""One self-contained HTML page: measured and published accuracy, table by table."""

from collections.abc import Sequence
from typing import Any

from tailcloud.bench import table_text
from tailcloud.bench.chart import plot_cells
from tailcloud.bench.filled_table import FilledTable, TableCell
from tailcloud.formatting import counted
from tailcloud.reporting.render import render


def bench_page(tables: Sequence[FilledTable]) -> str:
    """The page about one table of the paper or several."""
    return render(
        "bench.html.j2",
        title="tailcloud and the paper: measured and published accuracy",
        headline=headline(tables),
        shortened=any(filled.protocol.epochs for filled in tables),
        paper_tables=[
            {"filled": filled, "legend": table_text.legend(filled), "columns": page_columns(filled)}
            for filled in tables
        ],
        header=table_text.LONG_COLUMNS,
    )


def headline(tables: Sequence[FilledTable]) -> str:
    """How many cells are measured, and how many of them reach the published number."""
    cells = [cell for filled in tables for cell in filled.cells if cell.results]
    with_reference = [cell for cell in cells if cell.reference and cell.comparable]
    marked = sum(cell.below for cell in with_reference)
    name = f"{tables[0].table.title}: " if len(tables) == 1 else ""
    if not cells:
        return f"{name}nothing measured yet"
    reached = (
        f"{len(with_reference) - marked} of {len(with_reference)} within a point of the published number or above it"
    )
    return f"{name}{counted(len(cells), 'cell')} measured" + (f", {reached}" if with_reference else "")


def page_columns(filled: FilledTable) -> list[dict[str, Any]]:
    """The data sets of a table, as the template takes them."""
    columns = []
    for spec in filled.table.columns:
        cells = filled.column(spec)
        columns.append(
            {
                "spec": spec,
                "rows": [
                    (cell, table_text.text_rows([cell], list(table_text.LONG_COLUMNS))[0])
                    for cell in table_text.shown_cells(cells)
                ],
                "chart": plot_cells(spec, cells),
                "fingerprints": fingerprints(cells),
                "remarks": table_text.column_remarks(filled, spec),
            }
        )
    return columns


def fingerprints(cells: Sequence[TableCell]) -> list[str]:
    """The fingerprints of the data sets that the results were measured on."""
    return sorted({result.dataset.fingerprint for cell in cells for result in cell.results})
