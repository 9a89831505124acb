"""``tailcloud evaluate``: measure a trained model again."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.console import out, say_note
from tailcloud.cli.plugin import Plugin
from tailcloud.wording import number


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    data: Annotated[
        str | None, typer.Option(help="Other data with the same classes; the run's own by default.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="The folder that data files are in.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was measured as JSON.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Measure the model of a run on the test images of its data, or of other data with the same classes.

    Example: tailcloud evaluate runs/digits-lt-gcl-seed0
    """
    import json

    from rich.table import Table

    from tailcloud.data import open_dataset
    from tailcloud.serving.evaluate import evaluate_run
    from tailcloud.training.devices import pick_device
    from tailcloud.training.folder import RunFolder

    folder = RunFolder(run)
    recipe = folder.recipe()
    dataset = open_dataset(data or recipe.data.spec, root or recipe.root, recipe.data.reading)
    measured = evaluate_run(run, dataset, pick_device(device))
    if as_json:
        typer.echo(json.dumps(measured, indent=1))
        return
    for remark in dataset.remarks:
        say_note(remark)
    if folder.finished and (selection := folder.result()["protocol"]["selection"]) != "last":
        say_note(f"These are the weights of the epoch that was {selection}, not of the last one.")
    keys = ("top1", "balanced_accuracy", "macro_f1", "many", "medium", "few", "ece")
    table = Table(box=None, pad_edge=False)
    for key in keys:
        table.add_column(key.replace("_", " "), justify="right")
    table.add_row(*(number(measured[key]) for key in keys))
    out.print(f"{run} on {len(dataset.test):,} test images of {dataset.spec} (percent)", markup=False)
    out.print(table)
