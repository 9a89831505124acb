"""Which classes are taken for which: a heat map up to ``DRAWN`` classes, and the most frequent confusions."""

from dataclasses import dataclass

from tailcloud.formatting import counted, shortened
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.class_plots import NAMED
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure
from tailcloud.runs.result import Result

DRAWN = 100
NUMBERED = 12
SHADES = 10


@dataclass(frozen=True)
class Confusion:
    """Test images of class ``true`` that were taken for ``predicted``; ``share`` is in percent of that class."""

    true: int
    predicted: int
    count: int
    share: float


@dataclass(frozen=True)
class _Grid:
    """Where the cells are: left and top edge, and the size of a cell."""

    left: float
    top: float
    cell: float


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
    """The heat map, the most frequent class first; none without data or with too many classes."""
    classes = len(result.names)
    if not result.confusion or classes > DRAWN:
        return None
    grid = _grid(result)
    canvas = Canvas(f"Confusion of {counted(classes, 'class', 'classes')}, true by predicted", WIDTH)
    _cells(canvas, result, grid)
    canvas.text(
        (grid.left + grid.cell * classes / 2, 12 if _turned(result) else grid.top - 26),
        "predicted class",
        "tick",
        anchor="middle",
    )
    if classes <= NAMED:
        _names(canvas, result, grid)
    else:
        _groups(canvas, result, grid)
    caption = (
        "A row is a true class, a column what it was taken for, the most frequent class first; blue is right, "
        "red is wrong, and a stronger colour is a larger share of the row."
    )
    return Figure("Confusion", canvas.svg(), caption, (("right", "right"), ("wrong", "wrong")))


def _totals(result: Result) -> list[int]:
    """Test images of each class. The confusions alone do not tell: very many are not all recorded."""
    totals = [0] * len(result.names)
    for true, _, count in result.confusion:
        totals[true] += count
    return [max(pair) for pair in zip(totals, result.dataset.test_counts or totals, strict=True)]


def _grid(result: Result) -> _Grid:
    letters = max(len(shortened(name, 9)) for name in result.names) if len(result.names) <= NAMED else 7
    margin = 12 + 8.5 * letters
    top = 22 + (margin if _turned(result) else 20)
    size = WIDTH - max(margin, top) - 2
    return _Grid(WIDTH - 2 - size, WIDTH - 2 - size, size / len(result.names))


def _turned(result: Result) -> bool:
    """Whether the names above the columns are too long to lie flat."""
    return len(result.names) <= NAMED and max(map(len, result.names)) > 3


def _cells(canvas: Canvas, result: Result, grid: _Grid) -> None:
    rank = {index: place for place, index in enumerate(result.order)}
    totals, size = _totals(result), grid.cell * len(result.names)
    canvas.bars([(grid.left, grid.top, size, size)], "ground")
    shades: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    numbers = []
    for true, predicted, count in result.confusion:
        if not count:
            continue
        shade = max(1, round(SHADES * (count / totals[true]) ** 0.5))
        left, top = grid.left + rank[predicted] * grid.cell, grid.top + rank[true] * grid.cell
        kind = "right" if true == predicted else "wrong"
        shades.setdefault((kind, shade), []).append((left, top, grid.cell, grid.cell))
        numbers.append(((left + grid.cell / 2, top + grid.cell / 2 + 4), str(count), "strong" if shade > 7 else ""))
    for (kind, shade), boxes in sorted(shades.items()):
        canvas.bars(boxes, f"{kind} shade-{shade}")
    for at, words, css in numbers if len(result.names) <= NUMBERED else ():
        canvas.text(at, words, f"small {css}", anchor="middle")


def _names(canvas: Canvas, result: Result, grid: _Grid) -> None:
    long = _turned(result)
    for place, index in enumerate(result.order):
        middle = (place + 0.5) * grid.cell
        name = shortened(result.names[index], 9)
        canvas.text((grid.left - 7, grid.top + middle + 4), name, anchor="end")
        at = (grid.left + middle + (4 if long else 0), grid.top - 7)
        canvas.text(at, name, anchor="start" if long else "middle", turned=long)


def _groups(canvas: Canvas, result: Result, grid: _Grid) -> None:
    """With too many classes to name, the shot groups are named, and lines part them."""
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
