"""``tailcloud evaluate``: evaluate a trained model again."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tailcloud.cli.console import out, print_note
from tailcloud.cli.plugin_option import Plugin
from tailcloud.formatting import number


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    data: Annotated[
        str | None, typer.Option(help="Other data with the same classes; by default the data of the run.")
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="The folder with the data files, or with the images of a list.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(metavar="uniform|train|FILE", help="Expected class frequencies; FILE has lines of class,share."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Evaluate the model of a run on the test images of its data, or of other data with the same classes.

    Example:

        tailcloud evaluate runs/digits-lt-gcl-seed0

    With --prior, calibrated logits are adjusted to these class frequencies, and all figures are measured with them. A
    second table has the accuracy at three class frequencies: as in training, uniform, and reversed.
    """
    from tailcloud.data import open_dataset
    from tailcloud.files import json_text
    from tailcloud.runs.folder import RunFolder
    from tailcloud.serving.evaluate import evaluate_run
    from tailcloud.training.devices import pick_device

    folder = RunFolder(run)
    recipe = folder.recipe()
    dataset = open_dataset(data or recipe.data.spec, root or recipe.root, recipe.data.read_options)
    measured = evaluate_run(run, dataset, pick_device(device), prior)
    if as_json:
        typer.echo(json_text(measured))
        return
    for remark in dataset.remarks:
        print_note(remark)
    result = folder.result() if folder.finished else None
    if result and (selection := result.protocol.selection) != "last":
        print_note(f"These are the weights of the epoch that was {selection}, not of the last epoch.")
    adjusted = f", adjusted to {prior}" if prior else ""
    out.print(f"{run} on {len(dataset.test):,} test images of {dataset.spec}{adjusted} (percent)", markup=False)
    keys = ("top1", "balanced_accuracy", "macro_f1", "many", "medium", "few", "ece")
    _print_table({key.replace("_", " "): [measured[key]] for key in keys})
    if "priors" in measured:
        _print_deployment(measured["calibrated"], measured["priors"])


def _print_deployment(calibrated: dict[str, Any], priors: dict[str, Any]) -> None:
    fitted = f"T = {calibrated['temperature']:.3g}" if calibrated["fitted_on"] else "not fitted: no held-out images"
    out.print(f"\nECE after calibration: {number(calibrated['ece'])} ({fitted})", markup=False)
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
