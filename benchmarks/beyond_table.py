"""All six CIFAR-LT data sets in one table: the rows of ``tailcloud bench beyond``, and averages of several seeds."""

import json
from collections.abc import Iterator, Sequence

from recorded_results import cell_recipe_text, resolved_recipe_text

from tailcloud.bench import FilledTable, TableRow
from tailcloud.bench.filled_table import TableCell
from tailcloud.bench.table_text import MARK, NO_VALUE
from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown
from tailcloud.runs.result import Result

# BalPoE (Aimar et al., CVPR 2023): last epoch, 5 seeds, 1.34 M parameters without heads
EXPERTS = {"cifar10-lt:100": 86.8, "cifar100-lt:100": 55.9, "cifar100-lt:50": 60.1}


def parts(filled: FilledTable, averages: Sequence[Result]) -> Iterator[str]:
    """A column for each data set; measured rows, averages, then what is published."""
    specs = filled.table.columns
    rows = [line(filled, row.key) for row in filled.table.rows]
    rows += [average_line(averages, row, specs) for row in filled.table.rows]
    references = [filled.column(spec)[0].reference for spec in specs]
    best = [NO_VALUE if each is None else number(each.value) for each in references]
    experts = [number(EXPERTS[spec]) if spec in EXPERTS else NO_VALUE for spec in specs]
    published = [
        ["*the best published single ResNet-32*", "0.46 M", *best],
        ["*three experts, published (BalPoE)*", "1.3 M", *experts],
    ]
    header = ["", "parameters", *(f"`{spec}`" for spec in specs)]
    yield markdown(header, [*(row for row in rows if row), *published])


def line(filled: FilledTable, key: str) -> list[str] | None:
    """A row of the table; None if nothing of it is measured."""
    cells = [cell for cell in filled.cells if cell.row.key == key]
    results = [result for cell in cells for result in cell.results]
    if not results:
        return None
    return [cells[0].row.label, millions(results[0].model.parameters or 0), *map(cell_text, cells)]


def cell_text(cell: TableCell) -> str:
    """Mean and deviation; marked if it is more than a point below what is published."""
    if not cell.results:
        return NO_VALUE
    return cell.summary("top1").text() + (f" {MARK}" if cell.below else "")


def average_line(averages: Sequence[Result], row: TableRow, specs: Sequence[str]) -> list[str] | None:
    """The averages of runs of a row, by the recipe that these have; None if nothing of it is measured."""
    found = {
        average.dataset.spec: average
        for average in averages
        if resolved_recipe_text(json.dumps(average.recipe)) == cell_recipe_text(row, average.dataset.spec)
    }
    if not found:
        return None
    model = next(iter(found.values())).model
    cells = [number(found[spec].top1.last) if spec in found else NO_VALUE for spec in specs]
    return [f"{row.label}: {len(model.members)} networks, averaged", millions(model.parameters or 0), *cells]


def millions(parameters: int) -> str:
    return f"{number(parameters / 1e6, 2)} M"
