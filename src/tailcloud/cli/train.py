"""``tailcloud train``: a recipe in, a run folder out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import number, out, say_note
from tailcloud.errors import TailcloudError

if TYPE_CHECKING:
    from tailcloud.cli.planning import Run
    from tailcloud.data import Dataset
    from tailcloud.recipe import Recipe


class Stopped(TailcloudError):
    """Ctrl-C: not a failure, and nothing is lost."""

    exit_code = 130


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe's name or file; by default GCL on --data.", show_default=False)
    ] = None,
    data: Annotated[str | None, typer.Option(help="What to train on, for example cifar10-lt:100.")] = None,
    root: Annotated[str | None, typer.Option(help="The folder that data files are in.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="The run folder; with several seeds, the folder of the run folders.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="A seed; give it several times for several runs.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, train nothing.")
    ] = False,
) -> None:
    """Train a classifier: stage 1 learns the features, stage 2 re-balances the classifier.

    Examples:

        tailcloud train

        tailcloud train digits-lt/ce --seed 0 --seed 1 --out runs/ce

        tailcloud train cifar10-lt/gcl --root data --set stage1.epochs=20

        tailcloud train --resume --out runs/digits-lt-gcl-seed0
    """
    from tailcloud.cli.planning import Request, plan_runs, print_plan
    from tailcloud.training.devices import pick_device

    request = Request(recipe, data, root, settings or [], seed or [], output, resume)
    runs = plan_runs(request)
    if dry_run:
        print_plan(runs, open_data(runs[0].recipe), pick_device(device))
        return
    results = [train_one(run, device, resume=resume) for run in runs]
    if len(results) > 1:
        print_summary(results)


def open_data(recipe: "Recipe") -> "Dataset":
    """The data of a recipe, a part of it held out where the recipe says so."""
    from tailcloud.data import hold_out, open_dataset

    return hold_out(open_dataset(recipe.data, recipe.root), recipe.selection.split)


def train_one(run: "Run", device: str, *, resume: bool) -> dict[str, Any]:
    """Train a run to its end, or say how to go on with it."""
    from tailcloud.cli.watching import Watcher
    from tailcloud.reporting import write_report
    from tailcloud.training import loop
    from tailcloud.training.checkpoint import peek
    from tailcloud.training.devices import resumed_device

    if resume and run.folder.finished:
        say_note(f"{run.folder.path} is finished already.")
        return run.folder.result()
    state = peek(run.folder.checkpoints) if resume else None
    chosen = resumed_device(device, state["environment"]["device"] if state else None)
    dataset = open_data(run.recipe)
    for remark in [*dataset.profile.remarks(), *dataset.remarks]:
        say_note(remark)
    with run.folder.locked():
        if not run.folder.exists:
            run.folder.create(run.recipe, run.command)
        try:
            with Watcher(run.title) as watcher:
                result = loop.train(run.recipe, dataset, run.folder, chosen, watcher)
        except KeyboardInterrupt:
            raise Stopped(
                "stopped; nothing but the current epoch is lost. Go on with "
                f'"tailcloud train --resume --out {run.folder.path}"'
            ) from None
    page = write_report([run.folder.path])
    print_result(result)
    out.print(f"report: {page}", markup=False)
    return result


def print_result(result: dict[str, Any]) -> None:
    """The figures of a run, stage by stage."""
    keys = ("top1", "many", "medium", "few", "ece")
    for stage in result["stages"]:
        figures = "  ".join(f"{key} {number(stage[key])}" for key in keys)
        out.print(f"  {stage['name']}  {figures}  ({stage['seconds']:.1f} s)")


def print_summary(results: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over the seeds, of the last epoch."""
    from tailcloud.reporting.tables import mean_std

    values = {"top1": [result["top1"]["last"] for result in results]}
    values |= {key: [result[key] for result in results] for key in ("many", "medium", "few", "ece")}
    figures = "  ".join(f"{key} {mean_std(column).text()}" for key, column in values.items())
    out.print(f"[bold]{results[0]['method']}, mean of {len(results)} seeds[/]  {figures}")
