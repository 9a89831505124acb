"""One self-contained HTML page: measured and published accuracy, table by table, with a chart for each data set."""

from collections.abc import Sequence
from math import ceil, floor
from typing import Any

from tailcloud.bench import table_text
from tailcloud.bench.filled_table import FilledTable, TableCell
from tailcloud.formatting import counted, number
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Scale
from tailcloud.reporting.render import render

LEFT, LINE, TOP = 190.0, 24.0, 10.0  # of the chart, in pixels
LEGEND = (
    ("series-2", "measured, last epoch"),
    ("wrong", "measured, more than 1 point below"),
    ("tick-mark", "published"),
)


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
    """The data sets of a table, as the template takes them: what is measured first, the other rows apart."""
    columns = []
    for spec in filled.table.columns:
        cells = filled.column(spec)
        header = table_text.columns_for(cells, table_text.LONG_COLUMNS)
        columns.append(
            {
                "spec": spec,
                "header": header,
                "rows": [
                    (cell, table_text.text_rows([cell], list(header))[0])
                    for cell in sorted(cells, key=lambda cell: not cell.results)
                    if cell.results or cell.failures
                ],
                "unmeasured": [
                    (cell, table_text.published(cell)) for cell in cells if not (cell.results or cell.failures)
                ],
                "chart": plot_cells(spec, cells),
                "fingerprints": fingerprints(cells),
                "remarks": [*filled.unmeasured(spec), *table_text.remarks(cells)],
            }
        )
    return sorted(columns, key=lambda column: not column["rows"])


def fingerprints(cells: Sequence[TableCell]) -> list[str]:
    """The fingerprints of the data sets that the results were measured on."""
    return sorted({result.dataset.fingerprint for cell in cells for result in cell.results})


def plot_cells(spec: str, cells: Sequence[TableCell]) -> Figure | None:
    """The measured rows of a data set, from top to bottom; None if nothing was measured."""
    measured = [cell for cell in cells if cell.results]
    if not measured:
        return None
    height = TOP + LINE * len(measured)
    canvas = Canvas(f"Measured and published on {spec}: {alt_text(measured)}", height + 30)
    x, y = accuracy_scale(measured), Scale(0, len(measured), height, TOP)
    canvas.x_axis(x, y)
    for place, cell in enumerate(measured):
        draw_cell(canvas, cell, x, TOP + (place + 0.5) * LINE)
    caption = "Top-1 accuracy in percent, mean over seeds; the thin line is ± one standard deviation."
    return Figure(f"Measured and published on {spec}", canvas.svg(), caption, LEGEND)


def accuracy_scale(cells: Sequence[TableCell]) -> Scale:
    """A scale that holds every measured and published value."""
    values = [
        value for cell in cells for value in (cell.summary("top1").mean, published_value(cell)) if value is not None
    ]
    return Scale(floor(min(values) - 1), ceil(max(values) + 1), LEFT, WIDTH - 12)


def published_value(cell: TableCell) -> float | None:
    """The published number."""
    return cell.reference.value if cell.reference else None


def draw_cell(canvas: Canvas, cell: TableCell, x: Scale, middle: float) -> None:
    """One row of the chart."""
    canvas.text((LEFT - 10, middle + 4), cell.row.label, "small", anchor="end")
    summary, value = cell.summary("top1"), published_value(cell)
    if value is not None:
        canvas.rule((x(value), middle - 8), (x(value), middle + 8), "tick-mark")
    if summary.mean is None:
        return
    if summary.std is not None:
        canvas.rule((x(summary.mean - summary.std), middle), (x(summary.mean + summary.std), middle), "whisker")
    canvas.dots([(x(summary.mean), middle)], "wrong" if cell.below else "series-2", [cell_name(cell)])


def alt_text(cells: Sequence[TableCell]) -> str:
    """The values of the chart, for screen readers."""
    return "; ".join(map(cell_name, cells))


def cell_name(cell: TableCell) -> str:
    """A row of the chart in words: "GCL 82.6 ± 0.2, published 82.68"."""
    published = f", published {number(cell.reference.value, 2)}" if cell.reference else ""
    return f"{cell.row.label} {cell.summary('top1').text()}{published}"
