"""``tailcloud train``: recipes in, run folders out."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.console import say_note
from tailcloud.cli.plugin_option import Plugin
from tailcloud.errors import UsageError


def train(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE...", help="Recipes by name or file; by default GCL on --data.", show_default=False
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="A folder or list of images, or cifar10-lt:100 …")] = None,
    root: Annotated[
        str | None, typer.Option(help="The folder that data files, or the images of a list, are in.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The run folder; with several runs, the folder of their folders.  [default: runs/DATA-METHOD-seedN]",
        ),
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="A seed; give it several times for several runs.  [default: the recipe's, 0]"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe.")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Without a recipe: choose one that is done in 90s, 10m or 2h."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, train nothing.")
    ] = False,
    _plugin: Plugin = None,
) -> None:
    """Train a classifier: stage 1 learns the features, stage 2 re-balances the classifier.

    Examples:

        tailcloud train

        tailcloud train digits-lt/ce digits-lt/gcl --seed 0 --seed 1 --out runs/compare

        tailcloud train cifar10-lt/gcl --root data --set stage1.epochs=20

        tailcloud train --data photos --time-budget 10m

        tailcloud train --resume --out runs/digits-lt-gcl-seed0

        torchrun --nproc-per-node 8 -m tailcloud train cifar10-lt/gcl

    Ctrl-C ends with code 130 and SIGTERM, which saves the runs first, with 143; --resume goes on.
    """
    started = time.perf_counter()  # before the imports, which take seconds of a time budget
    from tailcloud.launch.run_plan import Request, plan_runs, print_plan
    from tailcloud.training.devices import pick_device
    from tailcloud.training.distributed.world import world_from_environment

    words = recipes or [], data, root, settings or [], seeds_of(seed or []), output
    request = Request(*words, resume, dry_run, device, time_budget, started)
    world = world_from_environment()
    if world.size > 1:
        from tailcloud.launch.torchrun import train_shared

        train_shared(request, world)
        return
    runs = plan_runs(request)
    if dry_run:
        print_plan(runs, pick_device(device))
        return
    from tailcloud.cli.train_summary import finish_with_errors, print_outcomes
    from tailcloud.launch.execute import train_all

    for run in runs:
        if run.folder.finished:
            say_note(f"{run.folder.path} is finished already.")
    outcomes = train_all(runs, device)
    print_outcomes(runs, outcomes)
    finish_with_errors(runs, outcomes)


def seeds_of(words: Sequence[str]) -> list[int]:
    """The seeds, each a whole number that is not negative."""
    for word in words:
        if not word.isdecimal():
            raise UsageError(
                f"--seed {word} must be a whole number that is not negative; give --seed once for each seed"
            )
    return [int(word) for word in words]
