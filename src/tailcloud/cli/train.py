"""``tailcloud train``: recipes in, run folders out."""

import shlex
import sys
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import out, say_error, say_note
from tailcloud.cli.plugin import Plugin
from tailcloud.errors import TailcloudError, UsageError, explained
from tailcloud.training.stopping import Terminated
from tailcloud.wording import number

if TYPE_CHECKING:
    from tailcloud.cli.planning import Run
    from tailcloud.data import Dataset
    from tailcloud.recipe import Data, Recipe
    from tailcloud.training.fleet import Job, Outcome
    from tailcloud.training.observer import Observer


class Stopped(TailcloudError):
    """Ctrl-C: not a failure, and nothing is lost."""

    exit_code = 130


def train(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE...", help="Recipes by name or file; by default GCL on --data.", show_default=False
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="A folder or list of images, or cifar10-lt:100 …")] = None,
    root: Annotated[str | None, typer.Option(help="The folder that data files are in.")] = None,
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
    from tailcloud.cli.planning import Request, plan_runs, print_plan
    from tailcloud.training.devices import pick_device
    from tailcloud.training.distributed import world_of

    words = recipes or [], data, root, settings or [], seeds_of(seed or []), output
    request = Request(*words, resume, dry_run, device, time_budget, started)
    world = world_of()
    if world.size > 1:
        from tailcloud.cli.ranks import train_shared

        train_shared(request, world)
        return
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
    if len(runs) > 1:
        folders = shlex.join(str(run.folder.path) for run in runs)
        out.print(f"compare them: tailcloud report {folders} --out comparison.html", markup=False)
    finish_with_errors(runs, outcomes)


def seeds_of(words: Sequence[str]) -> list[int]:
    """The seeds, each a whole number that is not negative."""
    for word in words:
        if not word.isdecimal():
            raise UsageError(
                f"--seed {word} must be a whole number that is not negative; give --seed once for each seed"
            )
    return [int(word) for word in words]


def train_all(runs: "Sequence[Run]", device: str) -> "list[Outcome]":
    """Train every run: several side by side on the CPU or a GPU, else one after the other."""
    from tailcloud.cli.watching import Screen

    try:
        with Screen() as screen:
            watchers = [screen.watch(run.title) for run in runs]
            return run_all([partial(train_one, run, device) for run in runs], watchers, device)
    except KeyboardInterrupt:
        raise Stopped(f'stopped; nothing but the last second is lost. Go on with "{to_go_on(runs)}"') from None
    except Terminated:
        raise Terminated(f'stopped by SIGTERM; go on with "{to_go_on(runs)}"') from None


def to_go_on(runs: "Sequence[Run]") -> str:
    """What to type to go on with runs that were stopped."""
    from tailcloud import plugins

    if len(runs) > 1:
        words = sys.argv[1:] if "--resume" in sys.argv else [*sys.argv[1:], "--resume"]
        seeds = {run.recipe.seed for run in runs}
        if len(seeds) == len(runs) and not any(word.partition("=")[0] == "--out" for word in words):
            words = [*words, "--out", str(runs[0].folder.path.parent)]  # the name of a method that was chosen is in it
        return shlex.join(["tailcloud", *words])
    return shlex.join(["tailcloud", "train", "--resume", "--out", str(runs[0].folder.path), *plugins.words()])


def run_all(jobs: "Sequence[Job]", watchers: "Sequence[Observer]", device: str) -> "list[Outcome]":
    """Run every job as the device has it best; the result of each, or the error that ended it. SIGTERM ends all."""
    from tailcloud.training.devices import pick_device
    from tailcloud.training.fleet import train_on_streams, train_side_by_side

    kind = pick_device(device).type
    if len(jobs) > 1 and kind == "cpu":
        outcomes = train_side_by_side(jobs, watchers)
    elif len(jobs) > 1 and kind == "cuda":
        outcomes = train_on_streams(jobs, watchers)
    else:
        outcomes = [attempt(job, watcher) for job, watcher in zip(jobs, watchers, strict=True)]
    for outcome in outcomes:
        if isinstance(outcome, Terminated):
            raise outcome
    return outcomes


def attempt(job: "Job", observer: "Observer") -> "Outcome":
    """One job here and now; an error that has a sentence is an outcome."""
    try:
        return job(observer)
    except Terminated:
        raise
    except Exception as error:
        sentence = explained(error)
        if sentence is None:
            raise
        return sentence


def train_one(run: "Run", device: str, observer: "Observer") -> dict[str, Any]:
    """Train a run to its end and write its report."""
    from tailcloud.recipe.names import frozen_remarks
    from tailcloud.reporting import write_report
    from tailcloud.reporting.result import parse_result
    from tailcloud.training import loop, stopping
    from tailcloud.training.checkpoint import peek
    from tailcloud.training.devices import check_engine, resumed_device
    from tailcloud.training.events import check_watch

    state = peek(run.folder.checkpoints) or {}
    chosen = resumed_device(device, state.get("environment", {}).get("device"))
    check_engine(run.recipe.engine, chosen)
    check_watch(run.recipe.watch)
    dataset = None if run.folder.finished else open_data(run.recipe)
    with run.folder.locked():
        run.folder.claim(run.recipe, run.command)
        if dataset is None or run.folder.finished:
            result = run.folder.result()
            parse_result(result, str(run.folder.result_file))
        else:
            for remark in [*frozen_remarks(run.recipe), *dataset.profile.remarks(), *dataset.remarks]:
                observer.note(remark)
            with stopping.listening():
                result = loop.train(run.recipe, dataset, run.folder, chosen, observer)
        if dataset or not run.folder.report_file.is_file():
            write_report([run.folder.path])
    return result


def open_data(recipe: "Recipe") -> "Dataset":
    """The data of a recipe, a part of it held out where the recipe says so, and refused where it needs more of them."""
    from tailcloud.training.held_out import check_held_out

    dataset = open_whole(recipe, recipe.selection.split)
    check_held_out(recipe, dataset)
    return dataset


def open_whole(recipe: "Recipe", held_out: float = 0.0) -> "Dataset":
    """The data of a recipe as they are, or with a share of the training images held out."""
    with _opening:
        return _open_data(_read_alike.get(recipe.data, recipe.data), recipe.root, held_out)


_opening = Lock()  # runs in threads share what the first of them has opened
_read_alike: "dict[Data, Data]" = {}


def note_alike(data: "Data", other: "Data") -> None:
    """Remember that two ways to name data read the same images, so that they are read once."""
    _read_alike[data] = other


@lru_cache(maxsize=4)
def _open_data(data: "Data", root: str, held_out: float) -> "Dataset":
    from tailcloud.data import hold_out, open_dataset

    if held_out:
        return hold_out(_open_data(data, root, 0.0), held_out)
    return open_dataset(data.spec, root, data.reading)


def print_result(run: "Run", result: dict[str, Any]) -> None:
    """The figures of a run, stage by stage, and where its report is."""
    out.print(f"{run.title}  {run.folder.report_file}", markup=False)
    for stage in result["stages"]:
        out.print(f"  {stage['name']}  {figures_of(stage)}  ({stage['seconds']:.1f} s)")
        if picked := stage.get("picked"):
            chosen = f"kept epoch {picked['epoch']}, chosen on {picked['on']}"
            out.print(f"  {' ' * len(stage['name'])}  {figures_of(picked)}  ({chosen})")


def figures_of(measured: dict[str, Any]) -> str:
    """The figures that matter most, in a line."""
    return "  ".join(f"{key} {number(measured[key])}" for key in ("top1", "many", "medium", "few", "ece"))


def print_summary(results: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over the runs of each method, where there are several."""
    from tailcloud.reporting.tables import by_dataset

    keys = ("top1", "many", "medium", "few", "ece")
    lines: list[tuple[str, ...]] = [("mean ± deviation", "runs", *keys)]
    for table in by_dataset(results):
        for row in (row for row in table.rows if len(row.results) > 1):
            figures = [row.summary(key).text() for key in keys]
            lines.append((f"{row.label}, {table.spec}", str(len(row.results)), *figures))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines if len(lines) > 1 else []:
        out.print(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip(), markup=False
        )


def finish_with_errors(runs: "Sequence[Run]", outcomes: "Sequence[Outcome]") -> None:
    """Among several runs the failed ones are named, each sentence once; the command fails if any did."""
    failed: dict[str, list[str]] = {}
    errors = [outcome for outcome in outcomes if isinstance(outcome, TailcloudError)]
    for run, outcome in zip(runs, outcomes, strict=True):
        if isinstance(outcome, TailcloudError):
            failed.setdefault(str(outcome), []).append(run.title)
    sentences = [f"{', '.join(titles)}: {text}" if len(runs) > 1 else text for text, titles in failed.items()]
    for sentence in sentences[:-1]:
        say_error(sentence)
    if errors:
        raise type(errors[-1])(sentences[-1])
