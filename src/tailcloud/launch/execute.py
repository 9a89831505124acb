"""Runs that were asked for, trained to their end: side by side where the device has it so."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tailcloud import plugins
from tailcloud.cli.progress import Screen
from tailcloud.errors import TailcloudError, explained
from tailcloud.launch.fleet import Job, Outcome, train_on_streams, train_side_by_side
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import Run
from tailcloud.runs.observer import Observer
from tailcloud.training.devices import check_engine, pick_device, resumed_device
from tailcloud.training.signals import Terminated


class Stopped(TailcloudError):
    """Ctrl-C: not a failure, and nothing is lost."""

    exit_code = 130


def train_all(runs: Sequence[Run], device: str) -> list[Outcome]:
    """Train every run: several side by side on the CPU or a GPU, else one after the other."""
    try:
        with Screen() as screen:
            watchers = [screen.watch(run.title) for run in runs]
            return run_all([partial(train_one, run, device) for run in runs], watchers, device)
    except KeyboardInterrupt:
        raise Stopped(f'stopped; nothing but the last second is lost. Go on with "{to_go_on(runs)}"') from None
    except Terminated:
        raise Terminated(f'stopped by SIGTERM; go on with "{to_go_on(runs)}"') from None


def to_go_on(runs: Sequence[Run]) -> str:
    """What to type to go on with runs that were stopped."""
    if len(runs) > 1:
        words = sys.argv[1:] if "--resume" in sys.argv else [*sys.argv[1:], "--resume"]
        seeds = {run.recipe.seed for run in runs}
        if len(seeds) == len(runs) and not any(word.partition("=")[0] == "--out" for word in words):
            words = [*words, "--out", str(runs[0].folder.path.parent)]  # the name of a method that was chosen is in it
        return shlex.join(["tailcloud", *words])
    return shlex.join(
        ["tailcloud", "train", "--resume", "--out", str(runs[0].folder.path), *plugins.plugin_arguments()]
    )


def run_all(jobs: Sequence[Job], watchers: Sequence[Observer], device: str) -> list[Outcome]:
    """Run every job as the device has it best; the result of each, or the error that ended it. SIGTERM ends all."""
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


def attempt(job: Job, observer: Observer) -> Outcome:
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


def train_one(run: Run, device: str, observer: Observer) -> dict[str, Any]:
    """Train a run to its end and write its report."""
    # A process that only hands out runs can do without these.
    from tailcloud.recipe.parameter_names import frozen_remarks
    from tailcloud.reporting import write_report
    from tailcloud.runs.checkpoint import peek
    from tailcloud.runs.result import parse_result
    from tailcloud.training import loop, signals
    from tailcloud.training.tensorboard_log import check_logging

    state = peek(run.folder.checkpoints) or {}
    chosen = resumed_device(device, state.get("environment", {}).get("device"))
    check_engine(run.recipe.engine, chosen)
    check_logging(run.recipe.logging)
    dataset = None if run.folder.finished else open_data(run.recipe)
    with run.folder.locked():
        run.folder.claim(run.recipe, run.command)
        if dataset is None or run.folder.finished:
            result = run.folder.result()
            parse_result(result, str(run.folder.result_file))
        else:
            for remark in [*frozen_remarks(run.recipe), *dataset.profile.remarks(), *dataset.remarks]:
                observer.note(remark)
            with signals.listening():
                result = loop.train(run.recipe, dataset, run.folder, chosen, observer)
        if dataset or not run.folder.report_file.is_file():
            write_report([run.folder.path])
    return result
