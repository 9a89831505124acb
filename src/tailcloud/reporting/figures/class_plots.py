"""Plots over classes: training images, and accuracy by training images, for one run or several methods.

Up to ``ROWS_NAMED`` classes each has a row with its name; more classes become dots and curves.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tailcloud.formatting import counted, number, percent, short_names, whole
from tailcloud.profile import FEW_BELOW, GROUPS, MANY_ABOVE
from tailcloud.reporting.accuracy_intervals import class_text
from tailcloud.reporting.figures.class_axis import class_axis
from tailcloud.reporting.figures.shot_groups import Accuracies, Series, method_series
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Scale
from tailcloud.reporting.labels import effective_stages
from tailcloud.reporting.tables import DatasetTable
from tailcloud.runs.result import Result, StageResult

ROWS_NAMED = 20
ROW = 26.0
BINS = 12
GROUP_LEGEND = (
    ("many", f"many: more than {MANY_ABOVE} images"),
    ("medium", f"medium: {FEW_BELOW} to {MANY_ABOVE}"),
    ("few", f"few: fewer than {FEW_BELOW}"),
)


def plot_counts(result: Result) -> Figure:
    """Training images per class, the most frequent first."""
    counts = result.dataset.counts
    present = [count for count in counts if count]
    log = max(present) / min(present) > 10
    label = (
        f"Training images of {counted(len(counts), 'class', 'classes')}: from {max(counts):,} down to {min(counts):,}"
    )
    draw = _count_rows if len(counts) <= ROWS_NAMED else _count_curve
    bounds = (min(present) / 2, float(max(present))) if log else (0.0, float(max(present)))
    caption = (
        f"Training images of each class, most frequent first{', on a logarithmic scale' if log else ''}. "
        f"Dashed lines: the bounds of the shot groups, {FEW_BELOW} and {MANY_ABOVE} images.{_left_out(result)}"
    )
    return Figure("Training images per class", draw(result, label, bounds, log).svg(), caption, _groups_present(result))


def _left_out(result: Result) -> str:
    """A sentence on training images that were left out of large classes; empty if none were."""
    sizes = result.dataset.class_sizes
    if not sizes:
        return ""
    largest = max(sizes)
    return f" Large classes are limited (data.max_count): {result.names[sizes.index(largest)]} has {largest:,} images."


def plot_classes(result: Result) -> Figure:
    """Accuracy of each class by its training images, also after the previous stage if there is one."""
    stages = effective_stages(result)
    earlier = stages[-2] if len(stages) > 1 and stages[-2].per_class else None
    label = f"Accuracy of {counted(len(result.names), 'class', 'classes')} by training images"
    legend = _groups_present(result)
    if len(result.names) <= ROWS_NAMED:
        canvas = _accuracy_rows(result, earlier, label)
        caption = "Accuracy of each class on the test images; the grey number is its training images."
        marker = (("tick-mark", f"after {earlier.name}"),) if earlier else ()
        return Figure("Accuracy per class", canvas.svg(), caption, (*legend, *marker))
    series = [Series("ink", "mean", result.per_class)]
    if earlier:
        series.insert(0, Series("faint", f"mean after {earlier.name}", earlier.per_class))
    canvas = _accuracy_curves(result, series, label, lambda index: class_text(result, index))
    dot = "a class" if result.stride == 1 else f"one class in {result.stride}"
    caption = (
        f"Each dot is {dot}, frequent classes to the left; the line is the mean over classes of similar frequency."
    )
    return Figure("Accuracy per class", canvas.svg(), caption, (*legend, *((one.css, one.name) for one in series)))


def plot_method_classes(table: DatasetTable) -> Figure:
    """Accuracy of each class for each method, by training images."""
    series = [method_series(index, row, row.class_means()) for index, row in enumerate(table.rows)]
    few = len(table.example.names) <= ROWS_NAMED
    label = "Accuracy of each class for each method, by training images"
    if few:
        canvas = _accuracy_dots(table.example, series, label)
    else:
        canvas = _accuracy_curves(table.example, series, label, partial(_method_text, table.example, series[-1]))
    caption = (
        "Accuracy in percent, mean over seeds and over classes of similar frequency; frequent classes to the left."
    )
    if few:
        caption = "Accuracy of each class, mean over the seeds; the grey number is its training images."
    return Figure("Accuracy per class", canvas.svg(), caption, tuple((one.css, one.name) for one in series))


def _method_text(result: Result, one: Series, index: int) -> str:
    return f"{result.names[index]}: {percent(one.values[index])}, {one.name}"


def _groups_present(result: Result) -> tuple[tuple[str, str], ...]:
    return tuple(entry for entry in GROUP_LEGEND if result.group_sizes[entry[0]])


def _row_scales(result: Result, low: float, high: float, *, log: bool = False, counts: bool) -> tuple[Scale, Scale]:
    """Scales of a chart with a row for each class, and room for the names to the left."""
    letters = max(map(len, short_names(result.names)))
    left = 14 + 8.5 * letters + (46 if counts else 0)
    rows = len(result.names)
    return Scale(low, high, left, WIDTH - 50, log), Scale(rows - 0.5, -0.5, 14 + rows * ROW, 14)


def _row_canvas(result: Result, label: str) -> Canvas:
    return Canvas(label, 14 + len(result.names) * ROW + 42)


def _name_rows(canvas: Canvas, result: Result, x: Scale, y: Scale, *, counts: bool) -> None:
    names = short_names(result.names)
    for row, index in enumerate(result.order):
        canvas.text((0, y(row) + 4), names[index])
        if counts:
            canvas.text((x.start - 9, y(row) + 4), whole(result.dataset.counts[index]), "tick", anchor="end")


def _count_rows(result: Result, label: str, bounds: tuple[float, float], log: bool) -> Canvas:
    canvas = _row_canvas(result, label)
    x, y = _row_scales(result, *bounds, log=log, counts=False)
    labels = []
    canvas.x_axis(x, y, title="training images")
    _name_rows(canvas, result, x, y, counts=False)
    for row, index in enumerate(result.order):
        count = result.dataset.counts[index]
        width = x(count) - x.start if count else 0.0
        canvas.bars([(x.start, y(row) - 8, width, 16)], result.group_of[index], [_count_text(result, index)])
        labels.append((x.start + width + 6, y(row) + 4, whole(count)))
    for bound in (FEW_BELOW, MANY_ABOVE):
        if x.low < bound < x.high:
            canvas.rule((x(bound), y.start), (x(bound), y.end), "bound")
    canvas.bars([(left - 3, base - 12, 6 + 8.5 * len(words), 16) for left, base, words in labels], "backdrop")
    for left, base, words in labels:
        canvas.text((left, base), words)
    return canvas


def _count_curve(result: Result, label: str, bounds: tuple[float, float], log: bool) -> Canvas:
    canvas = Canvas(label, 290)
    classes = len(result.order)
    x, y = Scale(0, classes, 50, WIDTH - 12), Scale(*bounds, 240, 12, log)
    canvas.y_axis(x, y, title="training images")
    class_axis(canvas, x, y, [result.names[index] for index in result.order])
    for group in GROUPS:
        ranks = [rank for rank in range(0, classes, result.stride) if result.group_of[result.order[rank]] == group]
        steps = [
            (x(rank + side), y(result.dataset.counts[result.order[rank]] or bounds[0]))
            for rank in ranks
            for side in (0, result.stride)
        ]
        if steps:
            canvas.area([(steps[0][0], y.start), *steps, (steps[-1][0], y.start)], group)
    for bound in (FEW_BELOW, MANY_ABOVE):
        if y.low < bound < y.high:
            canvas.rule((x.start, y(bound)), (x.end, y(bound)), "bound")
            canvas.text((x.end, y(bound) - 5), f"{bound} images", "tick", anchor="end")
    canvas.columns(x, y, [_count_text(result, index) for index in result.order[:: result.stride]])
    return canvas


def _count_text(result: Result, index: int) -> str:
    return f"{result.names[index]}: {counted(result.dataset.counts[index], 'training image')}"


def _accuracy_rows(result: Result, before: StageResult | None, label: str) -> Canvas:
    canvas = _row_canvas(result, label)
    x, y = _row_scales(result, 0, 100, counts=True)
    canvas.x_axis(x, y, (0, 25, 50, 75, 100), title="accuracy, %")
    _name_rows(canvas, result, x, y, counts=True)
    for row, index in enumerate(result.order):
        value = result.per_class[index] if result.per_class else None
        earlier = before.per_class[index] if before else None
        name = class_text(result, index) + (f"; after {before.name} {percent(earlier)}" if before else "")
        canvas.bars([(x.start, y(row) - 8, x(value or 0) - x.start, 16)], result.group_of[index], [name])
        if earlier is not None:
            canvas.rule((x(earlier), y(row) - 11), (x(earlier), y(row) + 11), "tick-mark")
        canvas.text((max(x(value or 0), x(earlier or 0)) + 6, y(row) + 4), number(value))
    return canvas


def _accuracy_dots(result: Result, series: Sequence[Series], label: str) -> Canvas:
    canvas = _row_canvas(result, label)
    x, y = _row_scales(result, 0, 100, counts=True)
    canvas.x_axis(x, y, (0, 25, 50, 75, 100), title="accuracy, %")
    _name_rows(canvas, result, x, y, counts=True)
    for one in series:
        values = ((row, index, one.values[index]) for row, index in enumerate(result.order) if one.values)
        known = [(row, index, value) for row, index, value in values if value is not None]
        points = [(x(value), y(row)) for row, _, value in known]
        canvas.line(points, f"thin {one.css}")
        canvas.dots(points, one.css, [_method_text(result, one, index) for _, index, _ in known])
    return canvas


def _accuracy_curves(result: Result, series: Sequence[Series], label: str, dot_text: Callable[[int], str]) -> Canvas:
    """A line for each series, over dots for the classes of the last one, which ``dot_text`` names."""
    canvas = Canvas(label, 300)
    places = [max(float(count), 0.5) for count in result.dataset.counts]
    x = Scale(min(places) / 1.1, max(places) * 1.1, WIDTH - 14, 44, log=True)  # frequent classes to the left
    y = Scale(0, 100, 250, 12)
    canvas.y_axis(x, y, title="accuracy, %")
    canvas.x_axis(x, y, title="training images of the class")
    for group in GROUPS if series[-1].values else ():
        members = (index for index in result.order[:: result.stride] if result.group_of[index] == group)
        known = [(index, value) for index in members if (value := series[-1].values[index]) is not None]
        points = [(x(places[index]), y(value)) for index, value in known]
        canvas.dots(points, f"cloud {group}", [dot_text(index) for index, _ in known])
    for one in series:
        points = [(x(place), y(value)) for place, value in _neighbours(result, places, one.values)]
        canvas.line(points, one.css, one.name)
    return canvas


def _neighbours(result: Result, places: Sequence[float], values: Accuracies) -> list[tuple[float, float]]:
    """Means over bins of classes of similar frequency: (training images, accuracy)."""
    known = [(places[index], value) for index in result.order if values and (value := values[index]) is not None]
    size = max(1, -(-len(known) // BINS))
    bins = [known[start : start + size] for start in range(0, len(known), size)]
    return [(sum(place for place, _ in part) / len(part), sum(value for _, value in part) / len(part)) for part in bins]
