"""``tailcloud train``: recipes in, run folders out."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcloud.cli.options import DEVICES, Plugin
from tailcloud.cuda_driver import start_driver
from tailcloud.errors import UsageError
from tailcloud.formatting import shortened

if TYPE_CHECKING:
    from tailcloud.launch.run_plan import PlannedRun, TrainRequest
    from tailcloud.training.distributed.world import World

MOST_DIGITS = 32  # of a seed that is read at all
MOST_SEEDS = 1000  # of a range


def start_gpu(context: typer.Context, device: str) -> str:
    """Before the other options are read, which imports PyTorch. A process of torchrun chooses its own GPU later."""
    if device in {"auto", "cuda"} and "WORLD_SIZE" not in os.environ and not context.resilient_parsing:
        start_driver()
    return device


def train(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipes by name or file.  [default: GCL; for your own images, one is chosen]",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A folder or list of images, or a name such as cifar10-lt:100.")
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="The folder with the data files, or with the images of a list.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The run folder; with several runs, the parent of their folders.  [default: runs/DATA-METHOD-seedN]",
        ),
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", help="A seed, or a range such as 0-4; repeatable. One run each.  [default: the recipe's, 0]"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help=DEVICES, callback=start_gpu, is_eager=True)] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe.")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Without a recipe: choose one that trains within this time, such as 90s, 10m or 2h."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What choices on held-out images weigh: balanced (classes alike), overall (images alike) or few "
            "(few-shot classes). Short for --set selection.objective=…",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Train as that run was trained, but for --set, such as --set method=ce."),
    ] = None,
    teacher: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="A finished run to learn from (distillation); repeat for the mean of several. Short for --set "
            "distill.teachers=…",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help='What the backbone starts from: "pretrained", a tag or a file; "none": from scratch. Short for '
            "--set model.weights=…"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the plan, train nothing.")
    ] = False,
    _plugin: Plugin = None,
) -> None:
    """Train a classifier: stage 1 learns the features, stage 2 re-balances the classifier.

    Examples:

        tailcloud train

        tailcloud train digits-lt/ce digits-lt/gcl --seed 0-1 --out runs/compare

        tailcloud train cifar10-lt/gcl --root data --set stage1.epochs=20

        tailcloud train --data photos --time-budget 10m

        tailcloud train --like runs/photos-gcl-seed0 --set method=ce

        tailcloud train digits-lt/gcl --teacher runs/compare/gcl/seed0 --teacher runs/compare/gcl/seed1

        tailcloud train --resume --out runs/digits-lt-gcl-seed0

        torchrun --nproc-per-node 8 -m tailcloud train cifar10-lt/gcl

    Ctrl-C exits with status 130; SIGTERM saves a checkpoint, then exits with 143. Continue with --resume.
    """
    started = time.perf_counter()  # before the imports, which take seconds of a time budget
    from tailcloud.cli.console import outlive_readers
    from tailcloud.launch.execute import NOTHING_WRITTEN, Stopped
    from tailcloud.launch.run_plan import TrainRequest, plan_runs
    from tailcloud.training.distributed.world import world_from_environment

    request = TrainRequest(
        recipes=recipes or [],
        data=data,
        root=root,
        settings=[*(settings or []), *option_settings({"model.weights": weights, "selection.objective": objective})],
        seeds=seeds_of(seed or []),
        out=output,
        resume=resume,
        dry_run=dry_run,
        device=device,
        time_budget=time_budget,
        like=like,
        teachers=teacher or [],
        started=started,
    )
    if not dry_run:
        outlive_readers()
    world = world_from_environment()
    if world.size > 1:
        train_shared(request, world)
        return
    try:
        runs = plan_runs(request)
    except KeyboardInterrupt:
        raise Stopped(NOTHING_WRITTEN) from None
    show_plan(request, runs)
    if dry_run:
        return
    from tailcloud.cli.progress import execute_with_progress
    from tailcloud.cli.train_output import finish_with_errors, print_outcomes

    outcomes = execute_with_progress(runs, device)
    print_outcomes(runs, outcomes)
    finish_with_errors(runs, outcomes)


def train_shared(request: "TrainRequest", world: "World") -> None:
    """Train the one run of a request in all processes of a world; rank 0 prints."""
    from tailcloud.cli.console import prefix_errors
    from tailcloud.cli.progress import shown_progress
    from tailcloud.cli.train_output import print_result
    from tailcloud.launch.torchrun import execute_shared, plan_shared_run, silence_notes
    from tailcloud.runs.observer import SilentObserver
    from tailcloud.training.devices import pick_device
    from tailcloud.training.distributed.world import process_group

    if not world.rank0:
        silence_notes()
    with process_group(world, pick_device(request.device)):
        run = world.from_rank0(partial(plan_shared_run, request))
        world.from_rank0(lambda: show_plan(request, [run]))
        if request.dry_run:
            return
        prefix_errors(f"rank {world.rank}")
        if not world.rank0:
            execute_shared(run, request.device, SilentObserver(), world)
            return
        with shown_progress([run.title]) as (observer,):
            result = execute_shared(run, request.device, observer, world)
        print_result(run, result)


def show_plan(request: "TrainRequest", runs: Sequence["PlannedRun"]) -> None:
    """Print why a recipe was chosen, if it was; for a dry run, the whole plan."""
    from tailcloud.cli.train_output import print_choice, print_plan
    from tailcloud.training.devices import pick_device

    print_choice(runs)
    if request.dry_run:
        print_plan(runs, pick_device(request.device))


def option_settings(options: Mapping[str, str | None]) -> list[str]:
    """Options that are short for a setting, as ``KEY=VALUE``."""
    return [f"{key}={value}" for key, value in options.items() if value]


def seeds_of(words: Sequence[str]) -> list[int]:
    """The seeds of ``--seed``: each word is a whole number that is not negative, or a range such as 0-4."""
    return [seed for word in words for seed in seeds_of_word(word)]


def seeds_of_word(word: str) -> Sequence[int]:
    """The seed of a word, or those of a range."""
    first, dash, last = word.partition("-")
    ends = [first, last] if dash else [word]
    if not all(end.isdecimal() for end in ends):
        raise UsageError(
            f"--seed {word} must be a whole number that is not negative; for several seeds write a range, such as 0-4, "
            "or repeat --seed"
        )
    if any(len(end) > MOST_DIGITS for end in ends):  # Python refuses to read thousands of digits
        raise UsageError(f"--seed {shortened(word, MOST_DIGITS)} is too large; a seed has at most 19 digits")
    seeds = range(int(ends[0]), int(ends[-1]) + 1)
    if not seeds:
        raise UsageError(f"--seed {word} ends before it begins; write --seed {last}-{first}")
    if seeds[-1] - seeds[0] >= MOST_SEEDS:
        raise UsageError(f"--seed {word} is more than {MOST_SEEDS:,} seeds; write a shorter range")
    return seeds
