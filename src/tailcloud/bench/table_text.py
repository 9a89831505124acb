"""A filled table as text: the same cells for the terminal, Markdown and the HTML page."""

from collections.abc import Callable, Mapping, Sequence
from math import isclose

from tailcloud.bench.filled_table import TOLERANCE, FilledTable, TableCell
from tailcloud.formatting import magnitude, number, whole
from tailcloud.reporting.tables import best_epoch_text, markdown

NO_VALUE = "–"
MARK = "▼"
SHORT_COLUMNS = {
    "row": "",
    "seeds": "seeds",
    "top1": "top-1, last epoch",
    "published": "published",
    "gap": "difference",
    "best": "top-1, best epoch",
}
LONG_COLUMNS = SHORT_COLUMNS | {
    "many": "many",
    "medium": "medium",
    "few": "few",
    "ece": "ECE",
    "parameters": "parameters",
    "flops": "FLOPs",
    "seconds": "seconds per run",
}


def columns_for(cells: Sequence[TableCell], columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a data set: balanced accuracy stands beside top-1 where test images make a difference."""
    figures = [(cell.summary("top1").mean, cell.summary("balanced_accuracy").mean) for cell in cells]
    alike = all(top1 is None or balanced is None or isclose(top1, balanced) for top1, balanced in figures)
    more = {} if alike else {"top1": columns["top1"], "balanced_accuracy": "balanced accuracy"}
    names = [name for name in columns if name not in more]
    place = names.index("seeds") + 1
    return {name: columns[name] for name in names[:place]} | more | {name: columns[name] for name in names[place:]}


def seeds(cell: TableCell) -> str:
    """How many runs finished, and how many failed."""
    return str(len(cell.results)) + (f", {len(cell.failures)} failed" if cell.failures else "")


def gap(cell: TableCell) -> str:
    """Points above the published number, with a mark if the cell is too far below; nothing for changed recipes."""
    if cell.gap is None:
        return NO_VALUE
    return number(cell.gap, signed=True) + (f" {MARK}" if cell.below else "")


def best(cell: TableCell) -> str:
    """Top-1 of the best epoch, with the split on which that was chosen, and among which epochs."""
    return best_epoch_text(cell.summary("best"), cell.results)


def published(cell: TableCell) -> str:
    """82.68, with its source unless that is the paper."""
    if cell.reference is None:
        return NO_VALUE
    source = "" if cell.reference.source == "paper" else f" ({cell.reference.source})"
    return f"{number(cell.reference.value, 2)}{source}"


RESULT_COLUMNS: dict[str, Callable[[TableCell], str]] = {
    "seeds": seeds,
    "gap": gap,
    "best": best,
    "parameters": lambda cell: whole(cell.results[0].model.parameters),
    "flops": lambda cell: magnitude(cell.results[0].model.flops),
}


def cell_text(cell: TableCell, column: str) -> str:
    """The text of a cell in one column."""
    if column == "row":
        return cell.row.label
    if column == "published":
        return published(cell)
    if not cell.results:
        return "failed" if cell.failures and column == "top1" else NO_VALUE
    return RESULT_COLUMNS[column](cell) if column in RESULT_COLUMNS else cell.summary(column).text()


def text_rows(cells: Sequence[TableCell], columns: Sequence[str]) -> list[list[str]]:
    """One row of texts for each cell."""
    return [[cell_text(cell, column) for column in columns] for cell in cells]


def shown_cells(cells: Sequence[TableCell]) -> list[TableCell]:
    """The cells with results or failures; all cells if no cell has any."""
    return [cell for cell in cells if cell.results or cell.failures] or list(cells)


def unmeasured_sentence(cells: Sequence[TableCell]) -> list[str]:
    """One sentence that names the other cells and their published numbers; empty if there are no others."""
    listed = {cell.row.key for cell in shown_cells(cells)}
    names = [
        cell.row.label + (f" (published: {published(cell)})" if cell.reference else "")
        for cell in cells
        if cell.row.key not in listed
    ]
    return [f"Not measured: {'; '.join(names)}."] if names else []


def remarks(cells: Sequence[TableCell]) -> list[str]:
    """Remarks on a data set: notes on marked cells, and each error with the rows it concerns."""
    notes = [f"{cell.row.label}: {cell.note}" for cell in cells if cell.note and cell.below]
    failed: dict[str, list[str]] = {}
    for cell in cells:
        for sentence in dict.fromkeys(cell.failures):
            failed.setdefault(sentence, []).append(cell.row.label)
    return [*notes, *(f"{', '.join(rows)} failed: {sentence}" for sentence, rows in failed.items())]


def column_remarks(filled: FilledTable, spec: str) -> list[str]:
    """All remarks on a data set, cells without results included."""
    cells = filled.column(spec)
    return [*filled.unmeasured(spec), *remarks(cells), *unmeasured_sentence(cells)]


def legend(filled: FilledTable) -> str:
    """The sentence that explains the table."""
    label = filled.protocol.label
    kind = f"{label[0].upper()}{label[1:]}. " if label else ""
    return (
        f"{kind}Mean ± sample standard deviation over seeds, in percent, of the last epoch. The best epoch has its "
        "own column, with the split on which it was chosen, and among how many epochs if not all were evaluated. "
        f"{MARK}: more than {TOLERANCE:g} point below the published number, which is the paper's unless another source "
        "is named."
    )


def markdown_sections(filled: FilledTable) -> list[str]:
    """The table in Markdown: a section for each data set, with its remarks."""
    parts = []
    for spec in filled.table.columns:
        cells = filled.column(spec)
        sentences, columns = column_remarks(filled, spec), columns_for(cells, SHORT_COLUMNS)
        parts += [
            f"### {spec}\n",
            markdown(list(columns.values()), text_rows(shown_cells(cells), list(columns))),
            "",
        ]
        parts += [*(f"- {sentence}" for sentence in sentences), ""] if sentences else []
    return parts
