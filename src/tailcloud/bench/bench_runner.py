"""How a bench runs: what exists is taken, what is missing trains here or on a cluster, and the table is written."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tailcloud import plugins
from tailcloud.bench import Planned
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.ray_cluster import Cluster, connected, machines_of, portion
from tailcloud.bench.ray_tasks import Errand, train_on_ray
from tailcloud.bench.shared_stages import Step, shared, waves
from tailcloud.bench.table_text import SHORT, legend, lines, remarks
from tailcloud.cli.bench_progress import Board
from tailcloud.cli.console import out, say_note
from tailcloud.errors import TailcloudError, explained
from tailcloud.files import write_atomically, write_json
from tailcloud.formatting import counted
from tailcloud.launch.execute import Stopped, run_all, train_one
from tailcloud.launch.fleet import Outcome
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import Run
from tailcloud.runs.folder import InUse
from tailcloud.runs.fork import branch, first_stage_file
from tailcloud.runs.observer import Observer
from tailcloud.training.signals import Terminated


def take_finished(runs: Sequence[Planned], board: Board) -> list[Planned]:
    """Put finished runs on the board; those that can be used, all but folders that hold another run by now."""
    usable = []
    for run in runs:
        try:
            if run.folder.exists:
                run.folder.claim(run.recipe, run.command)
            if run.folder.finished:
                board.finish(run, run.folder.result(), new=False)
            usable.append(run)
        except (TailcloudError, OSError) as error:  # among them folders of somebody else
            board.fail((run.row.key, run.spec), str(explained(error)))
    say_what_is_outdated(usable)
    return usable


def say_what_is_outdated(runs: Sequence[Planned]) -> None:
    """A finished run is not repeated, also where the plugin that its parts are from was changed: that must be said."""
    now, outdated = plugins.plugins_fingerprint(), dict[str, list[Planned]]()
    for run in (run for run in runs if run.folder.finished and plugins.uses_plugins(run.recipe)):
        then = run.folder.result().get("machine", {}).get("plugins", "no plugin")
        if then != now:
            outdated.setdefault(then, []).append(run)
    for then, members in outdated.items():
        what = f"{counted(len(members), 'finished run')} of {members[0].folder.path.parent}"
        names = ", ".join(run.folder.path.name for run in members)
        say_note(f"{what} trained with {then}, not with {now}; delete the folders to train again: {names}")


def print_steps(runs: Sequence[Planned], board: Board) -> None:
    """The runs that a bench would train, which of them exist, and which share a first stage."""
    steps = {step.run.title: step for step in shared(runs)}
    for run in runs:
        step = steps.get(run.title)
        state = "finished" if step is None else "goes on" if run.folder.exists else "new"
        start = f", from the first stage of {step.parent.folder.path.name}" if step and step.parent else ""
        epochs = " + ".join(str(stage.epochs) for stage in run.recipe.stages.values())
        out.print(f"{run.folder.path}  {epochs} epochs, {state}{start}", markup=False)
    own = sum(step.parent is None for step in steps.values())
    out.print(
        f"{counted(len(runs), 'run')}, {len(runs) - len(steps)} finished, {len(steps)} to train: "
        f"{own} from their own first stage, {len(steps) - own} from that of another"
    )
    say_what_failed(board)


PATIENCE = 0.5  # seconds between looks at what others train
Outcomes = Generator[tuple[Step, Outcome], None, None]  # as they come
Crew = Callable[[Sequence[Step], Board], Outcomes]


def train_missing(runs: Sequence[Planned], board: Board, crew: Crew) -> None:
    """Train what is missing, and put it on the board. A failure stops nothing else.

    Runs that another process trains at the same time, another bench on the same folders for example, are waited for.
    """
    try:
        with board:
            elsewhere = train_round(shared(runs), board, crew)
            while elsewhere:
                wait_for(elsewhere)
                named = {step.run.title for step in elsewhere}
                for run in (run for run in runs if run.title in named and run.folder.finished):
                    board.finish(run, run.folder.result())
                elsewhere = train_round([step for step in shared(runs) if step.run.title in named], board, crew)
    except KeyboardInterrupt:
        again = shlex.join(["tailcloud", *sys.argv[1:]])
        raise Stopped(f'stopped; nothing but the last second is lost. Go on with "{again}"') from None
    except Terminated:
        raise Terminated(f'stopped by SIGTERM; go on with "{shlex.join(["tailcloud", *sys.argv[1:]])}"') from None


def train_round(steps: Sequence[Step], board: Board, crew: Crew) -> list[Step]:
    """Train what nobody else trains; the others."""
    elsewhere = []
    with closing(crew(steps, board)) as outcomes:
        for step, outcome in outcomes:
            if isinstance(outcome, InUse):
                elsewhere.append(step)
            elif isinstance(outcome, TailcloudError):
                board.fail((step.run.row.key, step.run.spec), str(outcome))
            else:
                board.finish(step.run, outcome)
    return elsewhere


def wait_for(steps: Sequence[Step]) -> None:
    """Until nobody trains these runs, or the ones whose first stages they take, any more."""
    folders = {run.folder.path: run.folder for step in steps for run in (step.run, step.parent) if run}
    names = ", ".join(sorted(path.name for path, folder in folders.items() if folder.held))
    if names:
        say_note(f"another tailcloud process trains {names}; waiting for it")
    time.sleep(PATIENCE)
    while os.name != "nt" and any(folder.held for folder in folders.values()):  # Windows tells only those who try
        time.sleep(PATIENCE)


def on_this_machine(device: str) -> Crew:
    """In two waves: first every first stage once, then what starts from it."""

    def train(steps: Sequence[Step], board: Board) -> Outcomes:
        closed = without_data(steps, board)
        for wave in waves([step for step in steps if step.run.spec not in closed]):
            jobs = [partial(train_step, step, device) for step in wave]
            yield from zip(wave, run_all(jobs, [board.watch(step.run) for step in wave], device), strict=True)

    return train


def on_a_cluster(cluster: Cluster, place: Path) -> Crew:
    """As tasks of a Ray cluster, whose machines open the data themselves."""

    def train(steps: Sequence[Step], board: Board) -> Outcomes:
        if not steps:
            return
        with connected(cluster) as ray:
            share = portion(machines_of(ray), cluster)
            device = cluster.device if share.gpus else "cpu"
            errands = [Errand(step, partial(train_step, step, device), board.watch(step.run)) for step in steps]
            yield from train_on_ray(ray, errands, place, share)

    return train


def without_data(steps: Sequence[Step], board: Board) -> set[str]:
    """The data sets that cannot be opened: one sentence instead of one for each run."""
    closed = set()
    for spec in dict.fromkeys(step.run.spec for step in steps):
        mine = [step.run for step in steps if step.run.spec == spec]
        try:
            open_data(mine[0].recipe)
        except TailcloudError as error:
            closed.add(spec)
            for key in dict.fromkeys(run.row.key for run in mine):
                board.fail((key, spec), str(error))
    return closed


def train_step(step: Step, device: str, observer: Observer) -> dict[str, Any]:
    """One run to its end, from its own beginning or from where another one's first stage ended."""
    run = step.run
    if step.parent and not run.folder.exists:
        if not first_stage_file(step.parent.folder, run.recipe).is_file():
            if step.parent.folder.held:
                raise InUse(f"{step.parent.folder.path} is trained by another tailcloud process")
            raise TailcloudError(f"it takes the first stage of {step.parent.title}, which was not trained to its end")
        branch(step.parent.folder, run.folder, run.recipe, run.command)
    return train_one(Run(run.folder, run.recipe, run.command), device, observer)


def conclude(board: Board, place: Path, json_file: Path | None) -> None:
    """Print the table, write its page and its record; an error if any run failed."""
    filled = board.filled()
    for spec in filled.table.columns:
        cells = filled.column(spec)
        print_columns(f"{filled.table.title}: {spec}", [list(SHORT.values()), *lines(cells, list(SHORT))])
    out.print(legend(filled), markup=False)
    say_what_failed(board)  # before anything is written: the disk may be what failed
    if json_file:
        write_json(json_file, filled.record())
    page = place / f"{filled.table.name}.html"  # tables may share a folder
    write_atomically(page, bench_page([filled]))
    out.print(f"page: {page}", markup=False)
    failed = sum(map(len, board.failures.values()))
    if failed:
        raise TailcloudError(
            f"{counted(failed, 'cell or run', 'cells or runs')} could not be measured; the sentences above say why. "
            "The same command tries them again"
        )


def print_columns(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Lines of words, aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    out.print(f"[bold]{title}[/]")
    for row in rows:
        first, *rest = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        out.print("  ".join([first, *rest]).rstrip(), markup=False)
    out.print()


def say_what_failed(board: Board) -> None:
    """A sentence for each reason, with the rows that it is about."""
    filled = board.filled()
    for sentence in dict.fromkeys(said for spec in filled.table.columns for said in remarks(filled.column(spec))):
        say_note(sentence)
