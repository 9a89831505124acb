"""Which classes the later stages of a run made better, and which worse."""

from dataclasses import dataclass

from tailcloud.formatting import counted, number, short_names
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Scale
from tailcloud.reporting.labels import effective_stages, stage_title
from tailcloud.runs.result import Result

ROWS_DRAWN = 12  # classes that gained, and as many that lost
ROW = 24.0


@dataclass(frozen=True)
class ClassChange:
    """A class, its accuracy after the first stage and at the end, in percent, and its test images if known."""

    index: int
    before: float
    after: float
    tested: int | None

    @property
    def points(self) -> float:
        """The change in percentage points."""
        return self.after - self.before

    @property
    def images(self) -> int | None:
        """How many more test images are correct, fewer if negative."""
        return None if self.tested is None else round(self.points * self.tested / 100)


def class_changes(result: Result) -> list[ClassChange]:
    """The change of every tested class from the first stage to the end, the largest gain first; empty for one stage."""
    stages, tests = effective_stages(result), result.dataset.test_counts
    if len(stages) < 2 or not stages[0].per_class:
        return []
    both = zip(stages[0].per_class, result.per_class, strict=False)
    changes = [
        ClassChange(index, before, after, tests[index] if tests else None)
        for index, (before, after) in enumerate(both)
        if before is not None and after is not None
    ]
    return sorted(changes, key=lambda change: -change.points)


def plot_changes(result: Result) -> Figure | None:
    """The change of each class as a bar to the right or to the left; None without an earlier stage."""
    changes = class_changes(result)
    gained = [change for change in changes if change.points > 0]
    lost = [change for change in changes if change.points < 0]
    if not gained and not lost:
        return None
    shown = [*gained[:ROWS_DRAWN], *lost[-ROWS_DRAWN:]]
    first, last = (stage_title(stage) for stage in (effective_stages(result)[0], effective_stages(result)[-1]))
    tally = f"{len(gained)} gained, {len(lost)} lost, {len(changes) - len(gained) - len(lost)} stayed"
    canvas = Canvas(f"Change of accuracy per class from {first} to {last}: {tally}", 14 + len(shown) * ROW + 42)
    _draw(canvas, result, shown)
    hidden = len(gained) + len(lost) - len(shown)
    most = f" The {ROWS_DRAWN} largest gains and losses are drawn; the table has all." if hidden else ""
    caption = (
        f"Accuracy after {last} less that after {first}, in percentage points{_net(changes)}.{most} A class of few "
        "test images changes by much if one of them does."
    )
    return Figure(f"Classes after {first} and {last}: {tally}", canvas.svg(), caption)


def _net(changes: list[ClassChange]) -> str:
    """The sum of what is gained and lost, in test images, if their numbers are known."""
    images = [change.images for change in changes if change.images is not None]
    if not images:
        return ""
    more, fewer = sum(one for one in images if one > 0), -sum(one for one in images if one < 0)
    return f": {counted(more, 'more test image')} correct in some classes, {fewer:,} fewer in others"


def _draw(canvas: Canvas, result: Result, shown: list[ClassChange]) -> None:
    names = short_names([result.names[change.index] for change in shown])
    widest = max(abs(change.points) for change in shown)
    low, high = min(0.0, shown[-1].points), max(0.0, shown[0].points)
    margin = 0.16 * widest  # for the numbers beside the bars
    x = Scale(low - margin * (low < 0), high + margin, 20 + 8.5 * max(map(len, names)), WIDTH - 36)
    y = Scale(len(shown) - 0.5, -0.5, 14 + len(shown) * ROW, 14)
    canvas.x_axis(x, y, title="change of accuracy, points")
    for row, change in enumerate(shown):
        canvas.text((0, y(row) + 4), names[row])
        left, right = sorted((x(0), x(change.points)))
        css = "right" if change.points > 0 else "wrong"
        canvas.bars([(left, y(row) - 7, right - left, 14)], css, [_text(result, change)])
        at, anchor = (right + 5, "start") if change.points > 0 else (left - 5, "end")
        canvas.text((at, y(row) + 4), number(change.points, signed=True), "small", anchor=anchor)
    canvas.rule((x(0), y.start), (x(0), y.end), "axis")


def _text(result: Result, change: ClassChange) -> str:
    images = (
        ""
        if change.images is None
        else f", {number(change.images, 0, signed=True)} of {counted(change.tested or 0, 'test image')}"
    )
    values = f"{number(change.before)} → {number(change.after)}\u00a0%"
    return f"{result.names[change.index]}: {values} ({number(change.points, signed=True)} points{images})"
