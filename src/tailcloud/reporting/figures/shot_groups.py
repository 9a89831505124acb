"""Accuracy of the shot groups as bars: the stages of one run, or several methods side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tailcloud.formatting import counted, number, whole
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Point, Scale
from tailcloud.reporting.labels import effective_stages, stage_title
from tailcloud.reporting.tables import DatasetTable, MethodRow
from tailcloud.runs.result import Result, Scores

COLOURS = 8
Accuracies = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """One line, or the bars of one colour: css class, name, values, and standard deviations if there are any."""

    css: str
    name: str
    values: Accuracies
    deviations: Accuracies = ()


def plot_groups(result: Result) -> Figure:
    """Accuracy of the shot groups after each stage."""
    stages = effective_stages(result)
    earlier = stages[:-1]
    series = [
        Series(
            "pale" if stage is earlier[-1] else "paler", f"after {stage_title(stage)}", [stage.top1, *_groups(stage)]
        )
        for stage in earlier
    ]
    series.append(Series("", "last epoch", [result.top1.last, *_groups(result)]))
    title, caption = (
        "Shot groups",
        "Accuracy in percent on all test images and in each shot group, after the last epoch.",
    )
    if earlier:
        title = f"Shot groups after {', '.join(map(stage_title, earlier))} and {stage_title(stages[-1])}"
        caption = (
            "Accuracy in percent on all test images and in each shot group, at the end of each stage; the last "
            f"stage in full colour.{_stage_starts(result)}"
        )
    drawing = _bars(result, ("all", *GROUPS), series, f"{title}: {_alt_text(series)}")
    return Figure(title, drawing.svg(), caption)


def _stage_starts(result: Result) -> str:
    """The epochs from which later stages started, unless that was the last one."""
    return "".join(
        f" {later.name} started from epoch {before.picked.epoch} of {before.name}."
        for before, later in pairwise(result.stages_of_model)
        if before.picked
    )


def plot_methods(table: DatasetTable) -> Figure:
    """Accuracy of the shot groups for each method, with standard deviations over the seeds."""
    series = []
    for index, row in enumerate(table.rows):
        summaries = [row.summary(name) for name in GROUPS]
        means, deviations = [one.mean for one in summaries], [one.std for one in summaries]
        series.append(method_series(index, row, means, deviations))
    drawing = _bars(table.example, GROUPS, series, f"Accuracy per shot group: {_alt_text(series)}")
    caption = "Accuracy in percent, last epoch, mean over seeds; the thin line is ± one standard deviation."
    return Figure("Shot groups", drawing.svg(), caption, tuple((one.css, one.name) for one in series))


def method_series(index: int, row: MethodRow, values: Accuracies, deviations: Accuracies = ()) -> Series:
    """The values of one method, with its colour and its name; colours repeat after eight methods, dashed or paler."""
    css = f"series-{index % COLOURS}" + (" second" if index >= COLOURS else "")
    return Series(css, f"{row.label}, {whole(row.parameters)} parameters", values, deviations)


def _groups(scores: Scores) -> list[float | None]:
    return [scores.many, scores.medium, scores.few]


def _alt_text(series: Sequence[Series]) -> str:
    return "; ".join(f"{one.name} {', '.join(map(number, one.values))}" for one in series)


def _bars(result: Result, categories: Sequence[str], series: Sequence[Series], label: str) -> Canvas:
    canvas = Canvas(label, 290)
    x, y = Scale(0, len(categories), 40, WIDTH - 6), Scale(0, 100, 236, 22)
    canvas.y_axis(x, y, title="accuracy, %")
    stages = len(categories) > len(GROUPS)
    width = (x(1) - x(0)) * (0.84 if stages else 0.8) / len(series)  # wide enough for the numbers of three stages
    for place, category in enumerate(categories):
        middle = x(place + 0.5)
        canvas.text((middle, y.start + 18), category, anchor="middle")
        if category in GROUPS:
            words = counted(result.group_sizes[category], "class", "classes")
            canvas.text((middle, y.start + 36), words, "tick", anchor="middle")
        for index, one in enumerate(series):
            left = middle + (index - len(series) / 2) * width
            css = f"{category} {one.css}" if stages else one.css
            measured = one.values[place], one.deviations[place] if one.deviations else None
            _bar(canvas, y, (left, width), measured, css, f"{category}, {one.name}")
    return canvas


def _bar(
    canvas: Canvas, y: Scale, span: Point, measured: tuple[float | None, float | None], css: str, name: str
) -> None:
    """One bar at (left edge, width), with its name and deviation, and its number if there is room."""
    (left, width), (value, deviation) = span, measured
    top = y(value or 0)
    spread = f" ± {number(deviation)}" if deviation is not None else ""
    canvas.bars(
        [(left + width * 0.04, top, width * 0.92, y.start - top)], css, [f"{name}: {number(value)}{spread}\u00a0%"]
    )
    middle = left + width / 2
    if value is not None and deviation is not None:
        canvas.rule((middle, y(value - deviation)), (middle, y(value + deviation)), "whisker")
        top = y(value + deviation)
    if width >= 30 or value is None:
        canvas.text((middle, top - 6), number(value), "small" if width < 44 else "", anchor="middle")
