"""``tailcloud evaluate``: evaluate a trained model again, or on other labelled images."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tailcloud.cli.console import out, print_note
from tailcloud.cli.options import Device, Plugin
from tailcloud.formatting import number

FIGURES = ("top1", "balanced_accuracy", "macro_f1", "many", "medium", "few")


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    data: Annotated[
        str | None,
        typer.Option(help="Other labelled images, all of which are used; by default the test images of the run."),
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="The folder with the data files, or with the images of a list.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(metavar="uniform|train|FILE", help="Expected class frequencies; FILE has lines of class,share."),
    ] = None,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Leave out classes that the model does not know.")
    ] = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Evaluate the model of a run on its own test images, or on other labelled images.

    Examples:

        tailcloud evaluate runs/digits-lt-gcl-seed0

        tailcloud evaluate runs/birds --data photos-of-this-season

    With --data, every labelled image of a folder, list or .npz file is used, or its test split if it names one.
    Classes are matched by name; some may be missing. Images that the run was trained on are left out.

    With --prior, calibrated logits are adjusted to these class frequencies, and all figures are measured with them. A
    second table has the accuracy at three class frequencies: as in training, uniform, and reversed.
    """
    from tailcloud.files import json_text
    from tailcloud.launch.evaluation_data import open_evaluation_data
    from tailcloud.reporting.accuracy_intervals import FEW_IMAGES
    from tailcloud.runs.folder import NAME_DATA, RunFolder
    from tailcloud.serving.evaluate import evaluate_model
    from tailcloud.serving.load import load
    from tailcloud.training.devices import pick_device

    folder = RunFolder(run)
    recipe = None
    if folder.exists and data is None:
        folder.check_data(way_out=NAME_DATA)
    if folder.exists or data is None:  # with other data, the files of the model are enough
        recipe = folder.recipe({"data": {"spec": data}} if data else None)
    model = load(run)
    opened = open_evaluation_data(folder, recipe, model, data, root, ignore_unknown=ignore_unknown)
    measured, _ = evaluate_model(run, model, opened.dataset, pick_device(device), prior)
    measured |= {"data": opened.dataset.spec, "own_test_images": opened.own}
    if as_json:
        typer.echo(json_text(measured))
        return
    for remark in measured["remarks"]:
        print_note(remark)
    result = folder.result() if folder.finished else None
    if result and (selection := result.protocol.selection) != "last":
        print_note(f"These are the weights of the epoch that was {selection}, not of the last epoch.")
    which = "its own {:,} test images" if opened.own else "{:,} labelled images"
    adjusted = f", adjusted to {prior}" if prior else ""
    out.print(f"{run} on {which.format(measured['images'])} of {measured['data']}{adjusted} (percent)", markup=False)
    _print_table({key.replace("_", " "): [measured[key]] for key in FIGURES})
    if measured["images"] < FEW_IMAGES:
        _print_intervals(measured["intervals"])
    _print_calibration(measured, prior)
    if "priors" in measured:
        _print_priors(measured["priors"])


def _print_intervals(intervals: dict[str, tuple[float, float]]) -> None:
    from tailcloud.confidence_interval import Interval

    listed = [f"{key.replace('_', ' ')} {Interval(*interval).text}" for key, interval in intervals.items()]
    out.print(f"95 % intervals: {', '.join(listed)}", markup=False)


def _print_calibration(measured: dict[str, Any], prior: str | None) -> None:
    """The ECE of the probabilities that ``predict`` gives, and on which class frequencies it was measured."""
    from tailcloud.reporting.labels import ece_basis, ece_by_chance
    from tailcloud.runs.result import CalibrationResult

    if "calibrated" not in measured:  # a model of an older version
        out.print(f"\nece {number(measured['ece'])} (without temperature)", markup=False)
        return
    found = CalibrationResult.model_validate(measured["calibrated"])
    as_they_are = f", {number(found.ece)} on the images as they are" if found.weighted else ""
    fitted = f"T = {found.temperature:.3g}" if found.fitted_on else "no held-out images"
    basis = [ece_basis(found, prior if prior not in {"uniform", "train"} else None), ece_by_chance(found), fitted]
    out.print(f"\nece {number(found.in_use.ece)} ({'; '.join(filter(None, basis))}){as_they_are}", markup=False)


def _print_priors(priors: dict[str, Any]) -> None:
    out.print(f"\naccuracy at other class frequencies (the model assumes: {priors['assumed']})", markup=False)
    columns = {name: [priors[name]["plain"], priors[name]["adjusted"]] for name in ("forward", "uniform", "backward")}
    _print_table(columns, rows=["plain", "adjusted"])


def _print_table(columns: dict[str, list[float | None]], rows: list[str] | None = None) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    if rows:
        table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(*([rows[place]] if rows else []), *(number(value) for value in values))
    out.print(table)
