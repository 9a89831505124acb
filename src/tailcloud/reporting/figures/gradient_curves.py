"""Softmax saturation: the gradient on the target logit, epoch by epoch (section 3.1 of the GCL paper).

Drawn from logs with ``gradients``, which ``logging.gradients = true`` in a recipe records.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from tailcloud.formatting import counted
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.learning_curves import epoch_columns, epoch_scale, stage_bounds, whole_ticks
from tailcloud.reporting.figures.shot_groups import Series, method_series
from tailcloud.reporting.figures.svg import Canvas, Figure, Scale
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import DatasetTable, MethodRow
from tailcloud.runs.epoch_log import Epoch
from tailcloud.runs.result import Result

GRADIENT_FLOOR = 1e-4  # smaller values are drawn at the edge
PANEL = 176.0
MEANING = (
    "Size of the gradient on the logit of an image's true class, |∂L/∂z_y|, after each epoch, on a logarithmic scale: "
    "the mean over the training images of each class, then over the classes of a shot group. Near 0 the softmax is "
    f"saturated, and the images hardly change the weights. Values below {GRADIENT_FLOOR:g} are drawn at the edge. Each "
    "stage has its own loss"
)


def plot_gradients(result: Result, log: Sequence[Epoch]) -> Figure | None:
    """The gradients of the shot groups over the epochs of one run; None if they were not logged."""
    curves = {group: curve for group in GROUPS if _known(curve := _curve(result, log, group))}
    if not curves:
        return None
    canvas = Canvas(f"Gradient on the target logit over {counted(len(log), 'epoch')}: {', '.join(curves)}", 340)
    x, y = epoch_scale(len(log)), _scale(curves.values(), 296, 20)
    canvas.y_axis(x, y, title="gradient")
    canvas.x_axis(x, y, whole_ticks(x), title="epoch")
    stage_bounds(canvas, log, x, (y.end, y.start))
    for group, curve in curves.items():
        canvas.line([(x(place), y(value)) for place, value in enumerate(curve, start=1) if value is not None], group)
    canvas.columns(
        epoch_columns(x, len(log)), y, [_epoch_text(entry, curves, place) for place, entry in enumerate(log)]
    )
    caption = f"{MEANING}."
    return Figure("Softmax saturation", canvas.svg(), caption, tuple((group, group) for group in curves))


def plot_method_gradients(table: DatasetTable, runs: Sequence[RunRecord]) -> Figure | None:
    """The gradients of each shot group for each method that logged them, a panel for each group; None without any."""
    logs = {id(run.result): run.log for run in runs}
    found = {group: _series(table, logs, group) for group in GROUPS if table.example.group_sizes[group]}
    curves = [one.values for series in found.values() for one in series]
    if not curves:
        return None
    canvas = Canvas(
        "Gradient on the target logit over the epochs, for each method and shot group", len(found) * PANEL + 40
    )
    x = epoch_scale(max(map(len, curves)))
    for place, (group, series) in enumerate(found.items()):
        y = _scale(curves, (place + 1) * PANEL - 12, place * PANEL + 26)
        canvas.y_axis(x, y, title="gradient")
        last = place == len(found) - 1
        canvas.x_axis(x, y, whole_ticks(x) if last else (), title="epoch" if last else "")
        canvas.text((x.start, y.end - 10), f"{group}-shot")
        for one in series:
            points = [(x(epoch), y(value)) for epoch, value in enumerate(one.values, start=1) if value is not None]
            canvas.line(points, f"thin {one.css}", f"{group}-shot: {one.name}")
    legend = {one.css: one.name for series in found.values() for one in series}
    caption = f"{MEANING}. Runs without logging.gradients are left out."
    return Figure("Softmax saturation", canvas.svg(), caption, tuple(legend.items()))


def _epoch_text(entry: Epoch, curves: Mapping[str, Sequence[float | None]], place: int) -> str:
    measured = [f"{group} {value:.3g}" for group, curve in curves.items() if (value := curve[place]) is not None]
    return "\n".join([f"{entry.stage}, epoch {entry.epoch}", *(measured or ["not logged"])])


def _series(table: DatasetTable, logs: Mapping[int, Sequence[Epoch]], group: str) -> list[Series]:
    """For each method that logged gradients, the mean curve of its runs."""
    found = []
    for index, row in enumerate(table.rows):
        values = _mean_curve(row, logs, group)
        if _known(values):
            found.append(method_series(index, row, values))
    return found


def _mean_curve(row: MethodRow, logs: Mapping[int, Sequence[Epoch]], group: str) -> list[float | None]:
    curves = [_curve(result, logs[id(result)], group) for result in row.results]
    length = max(map(len, curves))
    known = [[curve[place] for curve in curves if place < len(curve)] for place in range(length)]
    return [_mean(values) for values in known]


def _curve(result: Result, log: Sequence[Epoch], group: str) -> list[float | None]:
    """The mean over the classes of a group after each epoch."""
    members = [index for index, name in enumerate(result.group_of) if name == group]
    return [_mean([entry.gradients[index] for index in members if entry.gradients]) for entry in log]


def _mean(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _scale(curves: Iterable[Sequence[float | None]], start: float, end: float) -> Scale:
    """A logarithmic scale of whole decades that holds every curve."""
    values = [max(value, GRADIENT_FLOOR) for curve in curves for value in _known(curve)]
    low, high = (math.log10(bound) for bound in (min(values), max(values)))
    return Scale(10.0 ** min(math.floor(low), -1), 10.0 ** max(math.ceil(high), 0), start, end, log=True)
