"""``tailcloud train``: recipes in, run folders out."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import number, out, say_error, say_note
from tailcloud.errors import TailcloudError

if TYPE_CHECKING:
    from tailcloud.cli.planning import Run
    from tailcloud.data import Dataset
    from tailcloud.recipe import Recipe
    from tailcloud.training.fleet import Outcome
    from tailcloud.training.loop import Observer


IN_FLIGHT = 16  # runs at a time on one GPU: an H200 is full with eight, and sixteen lose nothing


class Stopped(TailcloudError):
    """Ctrl-C: not a failure, and nothing is lost."""

    exit_code = 130


def train(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE]...", help="Recipes by name or file; by default GCL on --data.", show_default=False
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="What to train on, for example cifar10-lt:100.")] = None,
    root: Annotated[str | None, typer.Option(help="The folder that data files are in.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="The run folder; with several runs, the folder of their folders.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="A seed; give it several times for several runs.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, train nothing.")
    ] = False,
) -> None:
    """Train a classifier: stage 1 learns the features, stage 2 re-balances the classifier.

    Examples:

        tailcloud train

        tailcloud train digits-lt/ce digits-lt/gcl --seed 0 --seed 1 --out runs/compare

        tailcloud train cifar10-lt/gcl --root data --set stage1.epochs=20

        tailcloud train --resume --out runs/digits-lt-gcl-seed0
    """
    from tailcloud.cli.planning import Request, plan_runs, print_plan
    from tailcloud.training.devices import pick_device

    request = Request(recipes or [], data, root, settings or [], seed or [], output, resume)
    runs = plan_runs(request)
    if dry_run:
        print_plan(runs, open_data, pick_device(device))
        return
    for run in runs:
        if run.folder.finished:
            say_note(f"{run.folder.path} is finished already.")
    outcomes = train_all(runs, device)
    for run, outcome in zip(runs, outcomes, strict=True):
        if not isinstance(outcome, TailcloudError):
            print_result(run, outcome)
    print_summary([outcome for outcome in outcomes if not isinstance(outcome, TailcloudError)])
    finish_with_errors(runs, outcomes)


def train_all(runs: "Sequence[Run]", device: str) -> "list[Outcome]":
    """Train every run: one after the other, or on the CPU side by side."""
    from tailcloud.cli.watching import Screen
    from tailcloud.training.devices import pick_device
    from tailcloud.training.fleet import train_on_streams, train_side_by_side

    try:
        with Screen() as screen:
            watchers = [screen.watch(run.title) for run in runs]
            jobs = [partial(train_one, run, device) for run in runs]
            kind = pick_device(device).type
            if len(runs) > 1 and kind == "cpu":
                return train_side_by_side(jobs, watchers)
            if len(runs) > 1 and kind == "cuda":
                return train_on_streams(jobs, watchers, IN_FLIGHT)
            return [job(watcher) for job, watcher in zip(jobs, watchers, strict=True)]
    except KeyboardInterrupt:
        where = runs[0].folder.path if len(runs) == 1 else "OUT"
        again = f"tailcloud train --resume --out {where}" if len(runs) == 1 else "the same command and --resume"
        raise Stopped(f'stopped; nothing but the current epoch is lost. Go on with "{again}"') from None


def train_one(run: "Run", device: str, observer: "Observer") -> dict[str, Any]:
    """Train a run to its end and write its report."""
    from tailcloud.reporting import write_report
    from tailcloud.training import loop
    from tailcloud.training.checkpoint import peek
    from tailcloud.training.devices import check_engine, resumed_device

    if run.folder.finished:
        return run.folder.result()
    state = peek(run.folder.checkpoints)
    chosen = resumed_device(device, (state or {}).get("environment", {}).get("device"))
    check_engine(run.recipe.engine, chosen)
    dataset = open_data(run.recipe)
    for remark in [*dataset.profile.remarks(), *dataset.remarks]:
        observer.note(remark)
    with run.folder.locked():
        if not run.folder.exists:
            run.folder.create(run.recipe, run.command)
        result = loop.train(run.recipe, dataset, run.folder, chosen, observer)
    write_report([run.folder.path])
    return result


def open_data(recipe: "Recipe") -> "Dataset":
    """The data of a recipe, a part of it held out where the recipe says so."""
    from tailcloud.data import hold_out, open_dataset

    return hold_out(open_dataset(recipe.data, recipe.root), recipe.selection.split)


def print_result(run: "Run", result: dict[str, Any]) -> None:
    """The figures of a run, stage by stage, and where its report is."""
    keys = ("top1", "many", "medium", "few", "ece")
    out.print(f"[bold]{run.title}[/]  {run.folder.path / 'report.html'}")
    for stage in result["stages"]:
        figures = "  ".join(f"{key} {number(stage[key])}" for key in keys)
        out.print(f"  {stage['name']}  {figures}  ({stage['seconds']:.1f} s)")


def print_summary(results: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over the seeds of each method."""
    from tailcloud.reporting.tables import by_dataset

    for table in by_dataset(results):
        for row in (row for row in table.rows if len(row.results) > 1):
            figures = "  ".join(f"{key} {row.summary(key).text()}" for key in ("top1", "many", "medium", "few", "ece"))
            out.print(f"[bold]{row.label} on {table.spec}, mean of {len(row.results)} runs[/]  {figures}")


def finish_with_errors(runs: "Sequence[Run]", outcomes: "Sequence[Outcome]") -> None:
    """One failed run among several is named; the command fails if any did."""
    failed = [
        (run, outcome) for run, outcome in zip(runs, outcomes, strict=True) if isinstance(outcome, TailcloudError)
    ]
    for run, error in failed[:-1]:
        say_error(f"{run.title}: {error}")
    if failed:
        run, error = failed[-1]
        raise type(error)(f"{run.title}: {error}")
