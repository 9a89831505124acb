"""Train a bench: finished runs are not repeated, missing ones train on this machine or on a Ray cluster."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Protocol

from tailcloud import plugins
from tailcloud.bench.plan import BenchRun, BenchStep, as_started, in_order, needed_folders, steps_of
from tailcloud.bench.ray_cluster import Cluster, connected, machine_resources, run_resources
from tailcloud.bench.ray_tasks import RayTask, train_on_ray
from tailcloud.bench.table import CellKey
from tailcloud.errors import TailcloudError, explained
from tailcloud.formatting import counted
from tailcloud.launch.execute import execute, resume_advice, run_jobs
from tailcloud.launch.fleet import After, Outcome
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.runs.folder import FolderInUse
from tailcloud.runs.fork import first_stage_file, fork_run
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result

POLL_SECONDS = 0.5  # between checks of runs that another process trains


class BenchDisplay(AbstractContextManager["BenchDisplay"], Protocol):
    """Where the runner reports results, failures and notes: the table on the screen, or a test."""

    def observer(self, run: BenchRun) -> Observer:
        """An observer for one run."""

    def finish(self, run: BenchRun, result: Result, *, new: bool = True) -> None:
        """A run is finished; ``new`` is False if it was finished before this bench."""

    def fail(self, key: CellKey, sentence: str) -> None:
        """A run of a cell, or all of them, failed."""

    def note(self, text: str) -> None:
        """A sentence that the user should read."""


Outcomes = Generator[tuple[BenchStep, Outcome], None, None]  # as runs end
Trainer = Callable[[Sequence[BenchStep], BenchDisplay], Outcomes]


def take_finished(runs: Sequence[BenchRun], display: BenchDisplay) -> list[BenchRun]:
    """Report finished runs, and return the runs with usable folders; a folder with another run is a failure."""
    usable = []
    for planned in runs:
        run = planned
        try:
            if run.folder.exists:
                run = as_started(planned)
                run.folder.claim(run.recipe, run.command)
            if run.folder.finished:
                display.finish(run, run.folder.result(), new=False)
            usable.append(run)
        except (TailcloudError, OSError) as error:  # for example a folder without read permission
            display.fail((run.row.key, run.spec), str(explained(error)))
    note_outdated(usable, display)
    return usable


def note_outdated(runs: Sequence[BenchRun], display: BenchDisplay) -> None:
    """Note the finished runs that use a plugin which has changed since: they are not repeated."""
    now, outdated = plugins.plugins_fingerprint(), dict[str, list[BenchRun]]()
    for run in (run for run in runs if run.folder.finished and plugins.uses_plugins(run.recipe)):
        then = run.folder.result().machine.get("plugins", "no plugin")
        if then != now:
            outdated.setdefault(then, []).append(run)
    for then, members in outdated.items():
        what = f"{counted(len(members), 'finished run')} of {members[0].folder.path.parent}"
        names = ", ".join(run.folder.path.name for run in members)
        display.note(f"{what} trained with {then}, not with {now}; delete the folders to train again: {names}")


def train_missing(runs: Sequence[BenchRun], display: BenchDisplay, trainer: Trainer) -> None:
    """Train missing runs and report them. A failed run does not stop the others.

    Runs that another process trains at the same time, such as another bench on the same folders, are waited for.
    """
    again = shlex.join(["tailcloud", *sys.argv[1:]])
    with resume_advice(lambda: f'"{again}"', [run.folder for run in runs]), display:
        elsewhere = train_round(steps_of(runs), display, trainer)
        while elsewhere:
            wait_for(elsewhere, display)
            named = {step.run.title for step in elsewhere}
            for run in (run for run in runs if run.title in named and run.folder.finished):
                display.finish(run, run.folder.result())
            elsewhere = train_round([step for step in steps_of(runs) if step.run.title in named], display, trainer)


def train_round(steps: Sequence[BenchStep], display: BenchDisplay, trainer: Trainer) -> list[BenchStep]:
    """Train all runs that no other process trains; the steps that are left."""
    elsewhere = []
    with closing(trainer(steps, display)) as outcomes:
        for step, outcome in outcomes:
            if isinstance(outcome, FolderInUse):
                elsewhere.append(step)
            elif isinstance(outcome, TailcloudError):
                display.fail((step.run.row.key, step.run.spec), str(outcome))
            else:
                display.finish(step.run, outcome)
    return elsewhere


def wait_for(steps: Sequence[BenchStep], display: BenchDisplay) -> None:
    """Wait until no other process trains these runs, or runs that they need."""
    folders = {folder.path: folder for step in steps for folder in (step.run.folder, *needed_folders(step))}
    names = ", ".join(sorted(path.name for path, folder in folders.items() if folder.is_locked))
    if names:
        display.note(f"another tailcloud process trains {names}; waiting for it")
    time.sleep(POLL_SECONDS)
    while os.name != "nt" and any(folder.is_locked for folder in folders.values()):  # not on Windows
        time.sleep(POLL_SECONDS)


def on_this_machine(device: str) -> Trainer:
    """Train here: every first stage once. A run that starts from one starts as soon as that one is saved."""

    def train(steps: Sequence[BenchStep], display: BenchDisplay) -> Outcomes:
        unavailable = fail_without_data(steps, display)
        ordered = in_order([step for step in steps if step.run.spec not in unavailable])
        jobs = [partial(train_step, step, device) for step in ordered]
        observers = [display.observer(step.run) for step in ordered]
        yield from zip(ordered, run_jobs(jobs, observers, device, needed_runs(ordered)), strict=True)

    return train


def needed_runs(steps: Sequence[BenchStep]) -> list[After | None]:
    """What each step waits for, if others of these steps train it: the first stage of its parent, or its teachers."""
    numbers = {step.run.folder.path: number for number, step in enumerate(steps)}

    def needed(step: BenchStep) -> After | None:
        jobs = [numbers[folder.path] for folder in needed_folders(step) if folder.path in numbers]
        if not jobs:
            return None
        if step.parent:
            return After(jobs, first_stage_file(step.parent.folder, step.run.recipe).is_file)
        return After(jobs, lambda: False)  # not before all teachers have ended

    return [needed(step) for step in steps]


def on_a_cluster(cluster: Cluster, out: Path) -> Trainer:
    """Train as tasks of a Ray cluster. Its machines open the data themselves."""

    def train(steps: Sequence[BenchStep], display: BenchDisplay) -> Outcomes:
        if not steps:
            return
        with connected(cluster) as ray:
            resources = run_resources(machine_resources(ray), cluster)
            device = cluster.device if resources.gpus else "cpu"
            tasks = [RayTask(step, partial(train_step, step, device), display.observer(step.run)) for step in steps]
            yield from train_on_ray(ray, tasks, out, resources)

    return train


def fail_without_data(steps: Sequence[BenchStep], display: BenchDisplay) -> set[str]:
    """The data sets that cannot be opened, reported once for each cell instead of once for each run."""
    unavailable = set()
    for spec in dict.fromkeys(step.run.spec for step in steps):
        runs = [step.run for step in steps if step.run.spec == spec]
        try:
            open_data(runs[0].recipe)
        except TailcloudError as error:
            unavailable.add(spec)
            for key in dict.fromkeys(run.row.key for run in runs):
                display.fail((key, spec), str(error))
    return unavailable


def train_step(step: BenchStep, device: str, observer: Observer) -> Result:
    """Train a run to its end, from the beginning or from the end of another run's first stage."""
    run = step.run
    if step.parent and not run.folder.exists:
        if not first_stage_file(step.parent.folder, run.recipe).is_file():
            if step.parent.folder.is_locked:
                raise FolderInUse(f"{step.parent.folder.path} is trained by another tailcloud process")
            raise TailcloudError(f"it needs the first stage of {step.parent.title}, which is not complete")
        fork_run(step.parent.folder, run.folder, run.recipe, run.command)
    for teacher in [] if step.parent or os.name == "nt" else needed_folders(step):  # Windows does not say who trains
        if teacher.is_locked and not teacher.finished:
            raise FolderInUse(f"{teacher.path} is trained by another tailcloud process")
    return execute(PlannedRun(run.folder, run.recipe, run.command), device, observer)
