"""A filled table in words: the same cells for the terminal, Markdown and the page."""

from collections.abc import Callable, Sequence

from tailcloud.bench.filled_table import TOLERANCE, Cell, Filled
from tailcloud.formatting import magnitude, number, whole
from tailcloud.reporting.tables import markdown

NOTHING = "–"
MARK = "▼"
SHORT = {
    "row": "",
    "seeds": "seeds",
    "top1": "top-1, last epoch",
    "published": "published",
    "gap": "difference",
    "best": "top-1, best epoch",
}
LONG = SHORT | {
    "many": "many",
    "medium": "medium",
    "few": "few",
    "ece": "ECE",
    "parameters": "parameters",
    "flops": "FLOPs",
    "seconds": "seconds per run",
}


def seeds(cell: Cell) -> str:
    """How many runs finished, and how many did not."""
    return str(len(cell.results)) + (f", {len(cell.failures)} failed" if cell.failures else "")


def gap(cell: Cell) -> str:
    """Points above the published number, marked where they are too far below."""
    return NOTHING if cell.gap is None else number(cell.gap, signed=True) + (f" {MARK}" if cell.below else "")


def best(cell: Cell) -> str:
    """The best epoch, with the split that it was chosen on."""
    return f"{cell.summary('best').text()} on {cell.results[0].top1.best_on or 'an unknown split'}"


def published(cell: Cell) -> str:
    """82.68, and whose number it is where it is not the paper's."""
    if cell.reference is None:
        return NOTHING
    source = "" if cell.reference.source == "paper" else f" ({cell.reference.source})"
    return f"{number(cell.reference.value, 2)}{source}"


OF_RESULTS: dict[str, Callable[[Cell], str]] = {
    "seeds": seeds,
    "gap": gap,
    "best": best,
    "parameters": lambda cell: whole(cell.results[0].model.parameters),
    "flops": lambda cell: magnitude(cell.results[0].model.flops),
}


def cell_text(cell: Cell, column: str) -> str:
    """One figure of a cell."""
    if column == "row":
        return cell.row.label
    if column == "published":
        return published(cell)
    if not cell.results:
        return "failed" if cell.failures and column == "top1" else NOTHING
    return OF_RESULTS[column](cell) if column in OF_RESULTS else cell.summary(column).text()


def lines(cells: Sequence[Cell], columns: Sequence[str]) -> list[list[str]]:
    """A line of words for each cell."""
    return [[cell_text(cell, column) for column in columns] for cell in cells]


def shown(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a finished page: those with something to see, or all where there is nothing yet."""
    return [cell for cell in cells if cell.results or cell.failures] or list(cells)


def not_shown(cells: Sequence[Cell]) -> list[str]:
    """The other ones in a sentence, with what was published about them."""
    seen = {cell.row.key for cell in shown(cells)}
    names = [
        cell.row.label + (f" (published: {published(cell)})" if cell.reference else "")
        for cell in cells
        if cell.row.key not in seen
    ]
    return [f"Not measured: {'; '.join(names)}."] if names else []


def remarks(cells: Sequence[Cell]) -> list[str]:
    """What there is to say under a column: what was tried for marked cells, and what failed."""
    said = [f"{cell.row.label}: {cell.note}" for cell in cells if cell.note and cell.below]
    failed: dict[str, list[str]] = {}
    for cell in cells:
        for sentence in dict.fromkeys(cell.failures):
            failed.setdefault(sentence, []).append(cell.row.label)
    return [*said, *(f"{', '.join(rows)} failed: {sentence}" for sentence, rows in failed.items())]


def legend(filled: Filled) -> str:
    """How to read the table."""
    label = filled.protocol.label
    kind = f"{label[0].upper()}{label[1:]}. " if label else ""
    return (
        f"{kind}Mean ± sample standard deviation over seeds, in percent, of the last epoch; the best epoch stands "
        f"apart, with the split it was chosen on. {MARK}: more than {TOLERANCE:g} point below the published number, "
        "which is the paper's unless another source is named."
    )


def sections(filled: Filled) -> list[str]:
    """The table in Markdown: one for each data set, and under it what there is to say."""
    parts = []
    for spec in filled.table.columns:
        cells = filled.column(spec)
        said = [*filled.unmeasured(spec), *remarks(cells), *not_shown(cells)]
        parts += [f"### {spec}\n", markdown(list(SHORT.values()), lines(shown(cells), list(SHORT))), ""]
        parts += [*(f"- {sentence}" for sentence in said), ""] if said else []
    return parts
