"""The reliability diagram: is the model as often right as it says?"""

from tailcloud.reporting.result import Result
from tailcloud.reporting.svg import WIDTH, Canvas, Figure, Scale
from tailcloud.wording import number, percent


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
