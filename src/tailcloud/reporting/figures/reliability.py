"""The reliability diagram: is the model as often right as it says?"""

from collections.abc import Iterable, Sequence

from tailcloud.formatting import number, percent, whole
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.shot_groups import method_series
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Point, Scale
from tailcloud.reporting.tables import DatasetTable, MethodRow
from tailcloud.runs.result import BeforeAfter, CalibrationResult, ReliabilityBin, Result


def plot_reliability(result: Result) -> Figure | None:
    """Accuracy against confidence in bins, with the number of images below; none without data."""
    total = sum(part.count for part in result.reliability)
    if not total:
        return None
    canvas = Canvas(f"Reliability diagram; expected calibration error {number(result.ece)} percent", 400)
    x, y = Scale(0, 100, 44, WIDTH - 14), Scale(0, 100, 276, 12)
    canvas.y_axis(x, y)
    canvas.x_axis(x, y, x.ticks())
    _bins(canvas, result, x, y)
    canvas.rule((x(0), y(0)), (x(100), y(100)), "bound")
    _images(canvas, result, x)
    caption = (
        "Bars are the accuracy in each bin of confidence, both in percent, with its number of images below: a bar "
        "short of its line is overconfident, one beyond it too modest; the mean distance is the ECE."
    )
    legend = (("right", "accuracy"), ("tick-mark", "mean confidence"))
    return Figure(f"Reliability: ECE {percent(result.ece)}", canvas.svg(), caption, legend)


def _bins(canvas: Canvas, result: Result, x: Scale, y: Scale) -> None:
    size = 100 / len(result.reliability)
    for index, part in enumerate(result.reliability):
        if part.accuracy is None or part.confidence is None:
            continue
        left, width = x(index * size) + 1, x(size) - x(0) - 2
        top, said = y(100 * part.accuracy), y(100 * part.confidence)
        canvas.bars([(left, top, width, y.start - top)], "right")
        canvas.rule((left, said), (left + width, said), "tick-mark")


def _images(canvas: Canvas, result: Result, x: Scale) -> None:
    most = max(part.count for part in result.reliability)
    size = 100 / len(result.reliability)
    y = Scale(0, most, 368, 318)
    canvas.rule((x.start, y.start), (x.end, y.start), "grid")
    canvas.text((x.start - 7, y.end + 6), f"{most:,}", "tick", anchor="end")
    boxes = [
        (x(index * size) + 1, y(part.count), x(size) - x(0) - 2, y.start - y(part.count))
        for index, part in enumerate(result.reliability)
    ]
    canvas.bars(boxes, "muted")
    canvas.text(((x.start + x.end) / 2, y.start + 20), "confidence", "tick", anchor="middle")


GAP = 36.0
SIDE = (WIDTH - 2 * GAP) / 2
TICKS = (0.0, 50.0, 100.0)


def plot_calibrated(result: Result) -> Figure | None:
    """A panel for all images and one for each shot group: accuracy against confidence, before and after."""
    if result.calibrated is None:
        return None
    panels = _panels(result.calibrated)
    fitted = result.calibrated.fitted_on is not None
    rows = -(-len(panels) // 2)
    spoken = "; ".join(f"{name} {_errors(both, fitted)}" for name, both in panels.items())
    canvas = Canvas(f"Reliability by shot group: {spoken}", rows * (SIDE + 56) + 4)
    for place, (name, both) in enumerate(panels.items()):
        left, top = GAP + (place % 2) * (SIDE + GAP), 26 + (place // 2) * (SIDE + 56)
        x, y = Scale(0, 100, left, left + SIDE - 6), Scale(0, 100, top + SIDE, top)
        _frame(canvas, x, y)
        canvas.text((x.start, y.end - 9), f"{name}: {_errors(both, fitted)}")
        if fitted and both.before:
            canvas.line(_points(both.before.reliability, x, y), "faint thin")
        if both.after:
            canvas.line(_points(both.after.reliability, x, y), name if name in GROUPS else "ink")
    caption = (
        "Accuracy against confidence in bins, both in percent, for the test images of all classes and of each shot "
        "group, each with its ECE; on the dashed diagonal a model is as often right as it says, below it overconfident."
    )
    legend = (("faint", "before calibration"), ("ink", "after")) if fitted else ()
    return Figure("Reliability by shot group", canvas.svg(), caption, legend)


def temperature_sentence(calibrated: CalibrationResult) -> str:
    """What was fitted on what, or why nothing was."""
    if calibrated.fitted_on is None:
        return (
            "No temperature was fitted, because no images were held out for it; "
            "--set selection.split=0.1 holds out a tenth of the training images."
        )
    part = {"val": "validation"}.get(calibrated.fitted_on, calibrated.fitted_on)
    return (
        f"Temperature {number(calibrated.temperature, 2)}, fitted on {whole(calibrated.images)} {part} images: "
        f"the ECE of the test images goes from {percent(calibrated.before.ece)} to {percent(calibrated.ece)}."
    )


def plot_method_reliability(table: DatasetTable) -> Figure | None:
    """Accuracy against confidence of each method, all its runs together; none where no result has bins."""
    canvas = Canvas("Reliability of each method", 330)
    x, y = Scale(0, 100, 44, WIDTH - 14), Scale(0, 100, 276, 12)
    canvas.y_axis(x, y)
    canvas.x_axis(x, y, title="confidence")
    canvas.rule((x(0), y(0)), (x(100), y(100)), "bound")
    legend = []
    for index, row in enumerate(table.rows):
        points = _points(pooled(row), x, y)
        if points:
            one = method_series(index, row, ())
            canvas.line(points, f"thin {one.css}")
            legend.append((one.css, f"{row.label}: ECE {row.summary('ece').text()}"))
    caption = (
        "Accuracy against confidence in bins, both in percent, over the test images of all runs, before calibration; "
        "below the dashed diagonal a method is overconfident."
    )
    return Figure("Reliability", canvas.svg(), caption, tuple(legend)) if legend else None


def pooled(row: MethodRow) -> list[ReliabilityBin]:
    """The bins of all runs of a method as if they were one."""
    found = [result.reliability for result in row.results if result.reliability]
    return [_together(bins) for bins in zip(*found, strict=False)]


def _together(bins: Iterable[ReliabilityBin]) -> ReliabilityBin:
    full = [one for one in bins if one.confidence is not None and one.accuracy is not None]
    count = sum(one.count for one in full)
    if not count:
        return ReliabilityBin(count=0)
    sure = sum(one.count * (one.confidence or 0.0) for one in full)
    right = sum(one.count * (one.accuracy or 0.0) for one in full)
    return ReliabilityBin(count=count, confidence=sure / count, accuracy=right / count)


def _panels(calibrated: CalibrationResult) -> dict[str, BeforeAfter]:
    """All images, and each shot group that has any."""
    groups = {name: calibrated.groups.get(name) for name in GROUPS}
    found = {name: both for name, both in groups.items() if both and both.after}
    return {"all": BeforeAfter(before=calibrated.before, after=calibrated), **found}


def _errors(both: BeforeAfter, fitted: bool) -> str:
    """13.2 → 6.0 %, or one number where nothing was fitted."""
    after = percent(both.after.ece if both.after else None)
    return f"{number(both.before.ece)} → {after}" if fitted and both.before else after


def _frame(canvas: Canvas, x: Scale, y: Scale) -> None:
    for value in TICKS:
        canvas.rule((x.start, y(value)), (x.end, y(value)), "grid")
        canvas.rule((x(value), y.start), (x(value), y.end), "grid")
        canvas.text((x.start - 6, y(value) + 4), f"{value:g}", "tick", anchor="end")
        canvas.text((x(value), y.start + 17), f"{value:g}", "tick", anchor="middle")
    canvas.rule((x(0), y(0)), (x(100), y(100)), "bound")


def _points(bins: Sequence[ReliabilityBin], x: Scale, y: Scale) -> list[Point]:
    known = [(one.confidence, one.accuracy) for one in bins if one.count]
    return [(x(100 * sure), y(100 * right)) for sure, right in known if sure is not None and right is not None]
