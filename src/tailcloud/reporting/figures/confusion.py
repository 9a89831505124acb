"""The confusion matrix, drawn for up to ``CLASSES_DRAWN`` classes, and the most frequent confusions.

Up to ``CLASSES_NAMED`` classes have their names at the edges: those of more than ``ROWS_NAMED`` in a wide drawing.
Every cell is named under the pointer.
"""

from dataclasses import dataclass

from tailcloud.formatting import counted, percent, short_names
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.class_plots import ROWS_NAMED
from tailcloud.reporting.figures.svg import WIDTH, Box, Canvas, Figure
from tailcloud.runs.result import Result

CLASSES_DRAWN = 100
CLASSES_NAMED = 40
CLASSES_NUMBERED = 12
WIDE = 900.0
SHADES = 10


@dataclass(frozen=True)
class Confusion:
    """Test images of class ``true`` predicted as ``predicted``; ``share`` is in percent of the true class."""

    true: int
    predicted: int
    count: int
    share: float


@dataclass(frozen=True)
class _Grid:
    """The width of the drawing, the left and top edge of the cells, the size of a cell, and letters of a name."""

    width: float
    left: float
    top: float
    cell: float
    letters: int


def frequent_confusions(result: Result, limit: int | None = 15) -> list[Confusion]:
    """The most frequent errors, or all of them; most images first."""
    totals = _totals(result)
    errors = [
        Confusion(true, predicted, count, 100 * count / totals[true])
        for true, predicted, count in result.confusion
        if true != predicted and count
    ]
    return sorted(errors, key=lambda error: (-error.count, -error.share))[:limit]


def plot_confusion(result: Result) -> Figure | None:
    """The matrix, most frequent class first; None without confusions or with too many classes."""
    classes = len(result.names)
    if not result.confusion or classes > CLASSES_DRAWN:
        return None
    grid = _grid(result)
    label = f"Confusion matrix of {counted(classes, 'class', 'classes')}: true by predicted class"
    canvas = Canvas(label, grid.width, grid.width)
    _cells(canvas, result, grid)
    canvas.text(
        (grid.left + grid.cell * classes / 2, 12 if _turned(result) else grid.top - 26),
        "predicted class",
        "tick",
        anchor="middle",
    )
    middle = grid.top + grid.cell * classes / 2
    canvas.text((-4, middle), "true class", "tick", anchor="middle", turned=True)
    if classes <= CLASSES_NAMED:
        _names(canvas, result, grid)
    else:
        _groups(canvas, result, grid)
    caption = (
        "Rows are true classes, columns predicted classes, the most frequent class first. Blue: correct, red: wrong; "
        "the stronger the colour, the larger the share of the row."
    )
    legend = (("right", "correct"), ("wrong", "wrong"))
    return Figure("Confusion matrix", canvas.svg(), caption, legend, wide=grid.width > WIDTH)


def _totals(result: Result) -> list[int]:
    """Test images of each class; not from the confusions alone, since not all of very many are recorded."""
    totals = [0] * len(result.names)
    for true, _, count in result.confusion:
        totals[true] += count
    return [max(pair) for pair in zip(totals, result.dataset.test_counts or totals, strict=True)]


def _grid(result: Result) -> _Grid:
    classes = len(result.names)
    wide = ROWS_NAMED < classes <= CLASSES_NAMED
    width, letters = (WIDE, 16) if wide else (WIDTH, 9)
    longest = max(map(len, short_names(result.names, letters))) if classes <= CLASSES_NAMED else 7
    margin = 12 + (7.5 if wide else 8.5) * longest
    top = 22 + (margin if _turned(result) else 20)
    size = width - max(margin, top) - 2
    return _Grid(width, width - 2 - size, width - 2 - size, size / classes, letters)


def _turned(result: Result) -> bool:
    """Whether the names above the columns are too long to be horizontal."""
    classes = len(result.names)
    return classes <= CLASSES_NAMED and max(map(len, result.names)) > (3 if classes <= ROWS_NAMED else 2)


def _cells(canvas: Canvas, result: Result, grid: _Grid) -> None:
    rank = {index: place for place, index in enumerate(result.order)}
    totals, size = _totals(result), grid.cell * len(result.names)
    canvas.bars([(grid.left, grid.top, size, size)], "ground")
    shades: dict[tuple[str, int], list[tuple[Box, str]]] = {}
    numbers = []
    for true, predicted, count in result.confusion:
        if not count:
            continue
        shade = max(1, round(SHADES * (count / totals[true]) ** 0.5))
        left, top = grid.left + rank[predicted] * grid.cell, grid.top + rank[true] * grid.cell
        kind = "right" if true == predicted else "wrong"
        name = _cell_text(result, Confusion(true, predicted, count, 100 * count / totals[true]), totals[true])
        shades.setdefault((kind, shade), []).append(((left, top, grid.cell, grid.cell), name))
        numbers.append(((left + grid.cell / 2, top + grid.cell / 2 + 4), str(count), "strong" if shade > 7 else ""))
    for (kind, shade), cells in sorted(shades.items()):
        canvas.bars([box for box, _ in cells], f"{kind} shade-{shade}", [name for _, name in cells])
    for at, words, css in numbers if len(result.names) <= CLASSES_NUMBERED else ():
        canvas.text(at, words, f"small {css}", anchor="middle")


def _cell_text(result: Result, cell: Confusion, total: int) -> str:
    true, predicted = result.names[cell.true], result.names[cell.predicted]
    what = f"{true}: correct" if cell.true == cell.predicted else f"{true} → {predicted}"
    return f"{what}, {cell.count:,} of {total:,} ({percent(cell.share)})"


def _names(canvas: Canvas, result: Result, grid: _Grid) -> None:
    long, names = _turned(result), short_names(result.names, grid.letters)
    for place, index in enumerate(result.order):
        middle = (place + 0.5) * grid.cell
        name = names[index]
        canvas.text((grid.left - 7, grid.top + middle + 4), name, anchor="end")
        at = (grid.left + middle + (4 if long else 0), grid.top - 7)
        canvas.text(at, name, anchor="start" if long else "middle", turned=long)


def _groups(canvas: Canvas, result: Result, grid: _Grid) -> None:
    """Names of the shot groups and lines between them, if there are too many classes to name."""
    end, edge = 0, grid.cell * len(result.names)
    for group in GROUPS:
        start, end = end, end + result.group_sizes[group]
        if start == end:
            continue
        canvas.text((grid.left - 7, grid.top + (start + end) / 2 * grid.cell + 4), group, anchor="end")
        canvas.text((grid.left + (start + end) / 2 * grid.cell, grid.top - 7), group, anchor="middle")
        if start:
            here = start * grid.cell
            canvas.rule((grid.left, grid.top + here), (grid.left + edge, grid.top + here), "bound")
            canvas.rule((grid.left + here, grid.top), (grid.left + here, grid.top + edge), "bound")
