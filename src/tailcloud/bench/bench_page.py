"""One self-contained HTML page: measured beside published."""

from collections.abc import Sequence
from typing import Any

from tailcloud.bench import table_text
from tailcloud.bench.chart import plot_cells
from tailcloud.bench.filled_table import Cell, Filled
from tailcloud.formatting import counted
from tailcloud.reporting.render import render


def bench_page(tables: Sequence[Filled]) -> str:
    """The page about one table of the paper or several."""
    return render(
        "bench.html.j2",
        title="tailcloud beside the paper",
        headline=headline(tables),
        shortened=any(filled.protocol.epochs for filled in tables),
        parts=[
            {"filled": filled, "legend": table_text.legend(filled), "columns": columns(filled)} for filled in tables
        ],
        header=table_text.LONG,
    )


def headline(tables: Sequence[Filled]) -> str:
    """How many cells are measured, and how many of them hold up."""
    cells = [cell for filled in tables for cell in filled.cells if cell.results]
    with_number = [cell for cell in cells if cell.reference and cell.comparable]
    marked = sum(cell.below for cell in with_number)
    name = f"{tables[0].table.title}: " if len(tables) == 1 else ""
    if not cells:
        return f"{name}nothing measured yet"
    held = f"{len(with_number) - marked} of {len(with_number)} within a point of the published number or above it"
    return f"{name}{counted(len(cells), 'cell')} measured" + (f", {held}" if with_number else "")


def columns(filled: Filled) -> list[dict[str, Any]]:
    """The data sets of a table."""
    found = []
    for spec in filled.table.columns:
        cells = filled.column(spec)
        found.append(
            {
                "spec": spec,
                "rows": [
                    (cell, table_text.lines([cell], list(table_text.LONG))[0]) for cell in table_text.shown(cells)
                ],
                "chart": plot_cells(spec, cells),
                "marks": marks(cells),
                "said": [*filled.unmeasured(spec), *table_text.remarks(cells), *table_text.not_shown(cells)],
            }
        )
    return found


def marks(cells: Sequence[Cell]) -> list[str]:
    """The fingerprints of the images that were measured on."""
    return sorted({result.dataset.fingerprint for cell in cells for result in cell.results})
