"""Reliability diagrams (accuracy against confidence): of a run, of its shot groups with temperature, and of methods."""

from collections.abc import Iterable, Sequence

from tailcloud.formatting import number, percent, whole
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.shot_groups import method_series
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Point, Scale
from tailcloud.reporting.labels import ece_basis, ece_by_chance, weighted_to
from tailcloud.reporting.tables import DatasetTable, MethodRow
from tailcloud.runs.result import BeforeAfter, CalibrationChange, CalibrationResult, ReliabilityBin, Result

PANEL_GAP = 36.0
PANEL_SIDE = (WIDTH - 2 * PANEL_GAP) / 2
PANEL_TICKS = (0.0, 50.0, 100.0)
DIAGONAL = (
    "On the dashed diagonal confidence equals accuracy; above the diagonal the model is underconfident, below it "
    "overconfident."
)


def plot_reliability(result: Result) -> Figure | None:
    """Accuracy in each bin of confidence, with the number of images below; None without bins.

    The probabilities are those that ``predict`` gives, at the class frequencies that they assume; in results of older
    versions, those of the last epoch without calibration.
    """
    measured = result.calibrated.in_use if result.calibrated else result
    basis = ece_basis(result.calibrated)
    if not any(one.count for one in measured.reliability):
        return None
    canvas = Canvas(f"Reliability diagram; expected calibration error {number(measured.ece)} percent, {basis}", 400)
    x, y = Scale(0, 100, 44, WIDTH - 14), Scale(0, 100, 276, 12)
    canvas.y_axis(x, y, title="accuracy, %")
    canvas.x_axis(x, y, x.ticks())
    _draw_bins(canvas, measured.reliability, x, y)
    _draw_diagonal(canvas, x, y)
    _draw_bin_counts(canvas, measured.reliability, x)
    caption = (
        "Test images grouped by the model's confidence (its highest probability): blue bars are the accuracy of each "
        "group, black lines its mean confidence, grey bars its number of images. A bar above its line: "
        "underconfident; below: overconfident. The ECE is the mean distance over all images."
    )
    if result.calibrated and (mix := weighted_to(result.calibrated)):
        caption += f" Images are weighted to the class frequencies that the probabilities assume: {mix}."
    legend = (("right", "accuracy"), ("tick-mark", "mean confidence"))
    return Figure(f"Reliability: ECE {percent(measured.ece)} ({basis})", canvas.svg(), caption, legend)


def plot_calibrated(result: Result) -> Figure | None:
    """A panel for all images and one for each shot group, with and without temperature; None without calibration."""
    if result.calibrated is None:
        return None
    panels = _panels(result.calibrated.in_use)
    fitted = result.calibrated.fitted_on is not None
    rows = -(-len(panels) // 2)
    errors = {name: f"{name}: ECE {_ece_text(both, fitted)}" for name, both in panels.items()}
    canvas = Canvas(f"Reliability by shot group; {'; '.join(errors.values())}", rows * (PANEL_SIDE + 56) + 4)
    for place, (name, both) in enumerate(panels.items()):
        left, top = PANEL_GAP + (place % 2) * (PANEL_SIDE + PANEL_GAP), 26 + (place // 2) * (PANEL_SIDE + 56)
        x, y = Scale(0, 100, left, left + PANEL_SIDE - 6), Scale(0, 100, top + PANEL_SIDE, top)
        _draw_panel_axes(canvas, x, y)
        canvas.text((x.start, y.end - 9), errors[name])
        if fitted and both.before:
            canvas.line(_points(both.before.reliability, x, y), "faint thin")
        if both.after:
            canvas.line(_points(both.after.reliability, x, y), name if name in GROUPS else "ink")
    caption = (
        "Accuracy (vertical) against confidence (horizontal), in percent, for the test images of all classes and of "
        f"each shot group. {DIAGONAL}"
    )
    if mix := weighted_to(result.calibrated):
        caption += f" Test images are weighted: {mix}."
    legend = (("faint", "without temperature"), ("ink", "with temperature")) if fitted else ()
    return Figure("Reliability by shot group", canvas.svg(), caption, legend)


def temperature_sentence(calibrated: CalibrationResult) -> str:
    """The temperature, the images it was fitted on and its effect; or why none was fitted."""
    if calibrated.fitted_on is None:
        return (
            "No temperature was fitted, because no images were held out for it; "
            "--set selection.split=0.1 holds out a tenth of the training images."
        )
    part = {"val": "validation"}.get(calibrated.fitted_on, calibrated.fitted_on)
    fitted = f"Temperature {number(calibrated.temperature, 2)}, fitted on {whole(calibrated.images)} {part} images"
    as_they_are = f"from {percent(calibrated.before.ece)} to {percent(calibrated.ece)}"
    weighted = calibrated.weighted
    if weighted is None:
        return f"{fitted}: the ECE (calibration error) on the test images changes {as_they_are}."
    return (
        f"{fitted}: the ECE (calibration error) changes from {percent(weighted.before.ece)} to {percent(weighted.ece)} "
        f"at the class frequencies that the probabilities assume ({weighted_to(calibrated)}). For this, test images "
        f"are weighted by class, which makes them worth {whole(weighted.effective_images)} images of equal weight"
        f"{f'; {chance}' if (chance := ece_by_chance(calibrated)) else ''}. On the test images as they are, which have "
        f"other class frequencies, it changes {as_they_are}; if images in use are like these, tell predict their class "
        "frequencies (--prior)."
    )


def plot_method_reliability(table: DatasetTable) -> Figure | None:
    """Accuracy against confidence of each method, all its runs together; None if no result has bins."""
    canvas = Canvas("Reliability of each method", 330)
    x, y = Scale(0, 100, 44, WIDTH - 14), Scale(0, 100, 276, 12)
    canvas.y_axis(x, y, title="accuracy, %")
    canvas.x_axis(x, y, title="confidence, %")
    _draw_diagonal(canvas, x, y)
    legend = []
    for index, row in enumerate(table.rows):
        points = _points(pooled_bins(row), x, y)
        if points:
            series = method_series(index, row, ())
            canvas.line(points, f"thin {series.css}")
            legend.append((series.css, f"{row.label}: ECE {row.summary('ece').text()}"))
    caption = f"Test images of all runs, grouped by confidence, without temperature. {DIAGONAL}"
    return Figure("Reliability", canvas.svg(), caption, tuple(legend)) if legend else None


def pooled_bins(row: MethodRow) -> list[ReliabilityBin]:
    """The bins of all runs of a method together, weighted by their images."""
    runs = [result.reliability for result in row.results if result.reliability]
    return [_pool(bins) for bins in zip(*runs, strict=False)]


def _pool(bins: Iterable[ReliabilityBin]) -> ReliabilityBin:
    full = [one for one in bins if one.confidence is not None and one.accuracy is not None]
    count = sum(one.count for one in full)
    if not count:
        return ReliabilityBin(count=0)
    confidence = sum(one.count * (one.confidence or 0.0) for one in full)
    accuracy = sum(one.count * (one.accuracy or 0.0) for one in full)
    return ReliabilityBin(count=count, confidence=confidence / count, accuracy=accuracy / count)


def _panels(calibrated: CalibrationChange) -> dict[str, BeforeAfter]:
    """All images, and each shot group that has any."""
    groups = {name: calibrated.groups.get(name) for name in GROUPS}
    present = {name: both for name, both in groups.items() if both and both.after}
    return {"all": BeforeAfter(before=calibrated.before, after=calibrated), **present}


def _ece_text(both: BeforeAfter, fitted: bool) -> str:
    """13.2 → 6.0 %, or one number if no temperature was fitted."""
    after = percent(both.after.ece if both.after else None)
    return f"{number(both.before.ece)} → {after}" if fitted and both.before else after


def _points(bins: Sequence[ReliabilityBin], x: Scale, y: Scale) -> list[Point]:
    known = [(one.confidence, one.accuracy) for one in bins if one.count]
    return [
        (x(100 * confidence), y(100 * accuracy))
        for confidence, accuracy in known
        if confidence is not None and accuracy is not None
    ]


def _draw_bins(canvas: Canvas, bins: Sequence[ReliabilityBin], x: Scale, y: Scale) -> None:
    size = 100 / len(bins)
    for index, one in enumerate(bins):
        if one.accuracy is None or one.confidence is None:
            continue
        left, width = x(index * size) + 1, x(size) - x(0) - 2
        top, confidence = y(100 * one.accuracy), y(100 * one.confidence)
        canvas.bars([(left, top, width, y.start - top)], "right")
        canvas.rule((left, confidence), (left + width, confidence), "tick-mark")


def _draw_bin_counts(canvas: Canvas, bins: Sequence[ReliabilityBin], x: Scale) -> None:
    most = max(one.count for one in bins)
    size = 100 / len(bins)
    y = Scale(0, most, 368, 318)
    canvas.rule((x.start, y.start), (x.end, y.start), "grid")
    canvas.text((x.start - 7, y.end + 6), f"{most:,}", "tick", anchor="end")
    boxes = [
        (x(index * size) + 1, y(one.count), x(size) - x(0) - 2, y.start - y(one.count))
        for index, one in enumerate(bins)
    ]
    canvas.bars(boxes, "muted")
    canvas.text((-4, (y.start + y.end) / 2), "images", "tick", anchor="middle", turned=True)
    canvas.text(((x.start + x.end) / 2, y.start + 20), "confidence, %", "tick", anchor="middle")


def _draw_panel_axes(canvas: Canvas, x: Scale, y: Scale) -> None:
    for value in PANEL_TICKS:
        canvas.rule((x.start, y(value)), (x.end, y(value)), "grid")
        canvas.rule((x(value), y.start), (x(value), y.end), "grid")
        canvas.text((x.start - 6, y(value) + 4), f"{value:g}", "tick", anchor="end")
        canvas.text((x(value), y.start + 17), f"{value:g}", "tick", anchor="middle")
    _draw_diagonal(canvas, x, y)


def _draw_diagonal(canvas: Canvas, x: Scale, y: Scale) -> None:
    canvas.rule((x(0), y(0)), (x(100), y(100)), "bound")
