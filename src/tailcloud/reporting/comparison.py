"""What only a comparison shows: how methods learned side by side, what they are worth in use, and class by class."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tailcloud.formatting import NOT_MEASURED, number
from tailcloud.reporting.figures.learning_curves import epoch_scale, whole_ticks
from tailcloud.reporting.figures.shot_groups import method_series
from tailcloud.reporting.figures.svg import Canvas, Figure, Scale
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import DatasetTable, MethodRow, Summary, mean_std
from tailcloud.runs.result import Result

CELLS = 20_000  # of a table of classes and methods; more would make no page
IN_USE = {
    "ece": "ECE",
    "calibrated": "ECE, calibrated",
    "temperature": "temperature",
    "forward": "as in training",
    "uniform": "all classes alike",
    "backward": "the other way around",
}


def plot_method_learning(table: DatasetTable, runs: Sequence[RunRecord]) -> Figure | None:
    """Test accuracy after each epoch, for each method the mean of its runs; none without logs."""
    logs = {id(run.result): [entry.top1 for entry in run.log] for run in runs}
    curves = [
        [mean_std(epoch).mean for epoch in zip_longest(*(logs[id(one)] for one in row.results))] for row in table.rows
    ]
    epochs = max(map(len, curves))
    if not epochs:
        return None
    canvas = Canvas(f"Accuracy over {epochs} epochs for each method", 340)
    x, y = epoch_scale(epochs), Scale(0, 100, 296, 12)
    canvas.y_axis(x, y)
    canvas.x_axis(x, y, whole_ticks(x), title="epoch")
    legend = []
    for index, (row, curve) in enumerate(zip(table.rows, curves, strict=True)):
        one = method_series(index, row, curve)
        points = [(x(place), y(value)) for place, value in enumerate(curve, start=1) if value is not None]
        canvas.line(points, f"thin {one.css}")
        legend.append((one.css, one.name))
    caption = (
        "Top-1 accuracy on the test images in percent after each evaluated epoch of all stages, mean over the runs."
    )
    return Figure("Accuracy while training", canvas.svg(), caption, tuple(legend))


def measured_in_use(table: DatasetTable) -> bool:
    """Whether any run says what it is worth in use."""
    return any(result.calibrated or result.priors for row in table.rows for result in row.results)


def use_cells(row: MethodRow) -> list[str]:
    """A row of the table about use: mean ± deviation over the seeds, by the columns ``IN_USE``."""
    return [_over_seeds(row, column).text(digits=2 if column == "temperature" else 1) for column in IN_USE]


def _over_seeds(row: MethodRow, column: str) -> Summary:
    """Runs of the same seed count once, as their mean: a deviation is one over seeds."""
    by_seed = [[_in_use(one, column) for one in row.results if one.protocol.seed == seed] for seed in row.seeds]
    return mean_std(mean_std(values).mean for values in by_seed)


def class_rows(table: DatasetTable) -> Iterator[dict[str, Any]]:
    """The classes, the most frequent first, with their mean accuracy by each method."""
    example, means = table.example, [row.class_means() for row in table.rows]
    for index in example.order[:: class_stride(table)]:
        yield {
            "name": example.names[index],
            "group": example.group_of[index],
            "count": example.dataset.counts[index],
            "values": [number(values[index]) if values else NOT_MEASURED for values in means],
        }


def class_stride(table: DatasetTable) -> int:
    """For how many classes one that is listed stands."""
    classes = len(table.example.names)
    return max(table.example.stride, -(-classes * len(table.rows) // CELLS))


def _in_use(result: Result, column: str) -> float | None:
    match column:
        case "ece":
            return result.ece
        case "calibrated":
            return result.calibrated.ece if result.calibrated and result.calibrated.fitted_on else None
        case "temperature":
            return result.calibrated.temperature if result.calibrated and result.calibrated.fitted_on else None
        case _:
            return getattr(result.priors, column).adjusted if result.priors else None
