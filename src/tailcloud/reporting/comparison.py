"""Parts of a comparison page: learning curves, calibration and class frequencies, and accuracy by class, per method."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from tailcloud.formatting import NOT_MEASURED, number
from tailcloud.reporting.figures.learning_curves import epoch_columns, epoch_scale, whole_ticks
from tailcloud.reporting.figures.shot_groups import method_series
from tailcloud.reporting.figures.svg import Canvas, Figure, Scale
from tailcloud.reporting.labels import split_name
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import DatasetTable, MethodRow, Summary, mean_std
from tailcloud.runs.result import Result

MAX_CELLS = 20_000  # of the table of classes and methods, to keep the page small
DEPLOYMENT_COLUMNS = {
    "ece": "ECE without temperature",
    "calibrated": "ECE with temperature",
    "temperature": "temperature",
    "forward": "accuracy, frequencies as in training",
    "uniform": "accuracy, equal frequencies",
    "backward": "accuracy, reversed frequencies",
}


def plot_method_learning(table: DatasetTable, runs: Sequence[RunRecord]) -> Figure | None:
    """Test accuracy after each epoch, for each method the mean of its runs; None without logs."""
    logs = {id(run.result): [entry.top1 for entry in run.log] for run in runs}
    curves = [
        [mean_std(epoch).mean for epoch in zip_longest(*(logs[id(one)] for one in row.results))] for row in table.rows
    ]
    epochs = max(map(len, curves))
    if not epochs:
        return None
    canvas = Canvas(f"Accuracy over {epochs} epochs for each method", 340)
    x, y = epoch_scale(epochs), Scale(0, 100, 296, 12)
    canvas.y_axis(x, y, title="accuracy, %")
    canvas.x_axis(x, y, whole_ticks(x), title="epoch")
    legend = []
    for index, (row, curve) in enumerate(zip(table.rows, curves, strict=True)):
        one = method_series(index, row, curve)
        points = [(x(place), y(value)) for place, value in enumerate(curve, start=1) if value is not None]
        canvas.line(points, f"thin {one.css}")
        legend.append((one.css, one.name))
    canvas.columns(epoch_columns(x, epochs), y, [_epoch_text(table, curves, epoch) for epoch in range(epochs)])
    caption = (
        "Top-1 accuracy on the test images after each evaluated epoch of all stages, mean over the runs of a method."
    )
    return Figure("Accuracy while training", canvas.svg(), caption, tuple(legend))


def _epoch_text(table: DatasetTable, curves: Sequence[Sequence[float | None]], epoch: int) -> str:
    known = [(row.label, curve[epoch]) for row, curve in zip(table.rows, curves, strict=True) if epoch < len(curve)]
    measured = [f"{label} {number(value)}\u00a0%" for label, value in known if value is not None]
    return "\n".join([f"epoch {epoch + 1}", *measured])


def unequal_training(table: DatasetTable, results: Sequence[Result]) -> list[str]:
    """Sentences on how the runs on one data set were not trained alike; empty if they were.

    Runs are trained alike if they have the same images, of the same size, and the same epochs. Later stages that train
    only the head do not count: they belong to the method and cost little.
    """
    same_data = [result for result in results if result.dataset.spec == table.spec]
    return [*_unequal_epochs(table), *_unequal_sizes(same_data), *_unequal_images(table, same_data)]


def _unequal_epochs(table: DatasetTable) -> list[str]:
    rows = [row for row in table.rows if not row.results[0].model.members]  # an average has no epochs of its own
    if len({_main_epochs(result) for row in rows for result in row.results}) < 2:
        return []
    return [f"Epochs differ: {', '.join(f'{row.label} {row.epochs}' for row in rows)}."]


def _unequal_sizes(results: Sequence[Result]) -> list[str]:
    sizes = {" × ".join(map(str, result.dataset.shape[:2])): None for result in results if result.dataset.shape}
    if len(sizes) < 2:
        return []
    return [f"Image sizes differ: {' and '.join(sizes)} pixels (height × width)."]


def _unequal_images(table: DatasetTable, results: Sequence[Result]) -> list[str]:
    fingerprints = {result.dataset.fingerprint for result in results}
    if len(fingerprints) < 2:
        return []
    return [
        f"The runs on {table.spec} used {len(fingerprints)} different sets of images; this table has the runs with "
        f"fingerprint {table.fingerprint}."
    ]


def _main_epochs(result: Result) -> tuple[int, ...]:
    """The epochs of the first stage, and of later ones that train more than the head."""
    later = [stage for stage in result.stages[1:] if stage.epochs and not _trains_head(result, stage.name)]
    return tuple(stage.epochs for stage in [*result.stages[:1], *later])


def _trains_head(result: Result, stage: str) -> bool:
    settings = (result.recipe or {}).get(stage)
    if not isinstance(settings, Mapping):  # an old record
        return True
    return all(part.startswith("head") for part in str(settings.get("train", "all")).split("+"))


def row_notes(row: MethodRow, runs: Sequence[RunRecord]) -> list[str]:
    """Notes on a row that is not simply the mean over seeds of one recipe; ``runs`` are those of all rows."""
    notes = []
    differing = _differing_keys([run for run in runs if any(run.result is result for result in row.results)])
    if differing:
        notes.append(f"The recipes of {row.label} differ in more than the seed: {', '.join(differing)}.")
    if len(row.seeds) < len(row.results):
        notes.append(
            f"{row.label} has {row.runs}; runs of the same seed are averaged first: the deviation is over seeds."
        )
    split = row.results[0].start_chosen_on
    if split:
        notes.append(
            f"The last stage of {row.label} started from an epoch of the previous stage that was chosen on "
            f"{split_name(split)}{': its accuracies are optimistic' if split == 'test' else ''}."
        )
    return notes


def _differing_keys(runs: Sequence[RunRecord]) -> list[str]:
    settings = [run.settings() for run in runs]
    keys = sorted({key for one in settings for key in one})
    return [key for key in keys if any(one.get(key) != settings[0].get(key) for one in settings)]


def has_deployment_metrics(table: DatasetTable) -> bool:
    """Whether any result has calibration or accuracies at other class frequencies."""
    return any(result.calibrated or result.priors for row in table.rows for result in row.results)


def deployment_cells(row: MethodRow) -> list[str]:
    """A row of ``DEPLOYMENT_COLUMNS`` as text: mean ± standard deviation over the seeds."""
    return [_over_seeds(row, column).text(digits=2 if column == "temperature" else 1) for column in DEPLOYMENT_COLUMNS]


def _over_seeds(row: MethodRow, column: str) -> Summary:
    """Runs of the same seed count once, as their mean, so that the deviation is over seeds."""
    by_seed = [
        [_deployment_value(one, column) for one in row.results if one.protocol.seed == seed] for seed in row.seeds
    ]
    return mean_std(mean_std(values).mean for values in by_seed)


def class_rows(table: DatasetTable) -> Iterator[dict[str, Any]]:
    """The classes, most frequent first, with their mean accuracy for each method."""
    example, means = table.example, [row.class_means() for row in table.rows]
    for index in example.order[:: class_stride(table)]:
        yield {
            "name": example.names[index],
            "group": example.group_of[index],
            "count": example.dataset.counts[index],
            "values": [number(values[index]) if values else NOT_MEASURED for values in means],
        }


def class_stride(table: DatasetTable) -> int:
    """One class in so many is listed."""
    classes = len(table.example.names)
    return max(table.example.stride, -(-classes * len(table.rows) // MAX_CELLS))


def _deployment_value(result: Result, column: str) -> float | None:
    match column:
        case "ece":
            return result.ece
        case "calibrated":
            return result.calibrated.ece if result.calibrated and result.calibrated.fitted_on else None
        case "temperature":
            return result.calibrated.temperature if result.calibrated and result.calibrated.fitted_on else None
        case _:
            return getattr(result.priors, column).adjusted if result.priors else None
