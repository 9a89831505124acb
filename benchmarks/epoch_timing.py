"""Time the epochs of runs, alone or side by side, with evaluation, log and checkpoints.

Every run goes through ``tailcloud.training.loop`` and is watched by an observer that notes when epochs end, and that
stops the run once it was timed long enough. Runs of a fleet are timed while all of them are past their warm-up.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError
from tailcloud.launch.fleet import train_on_streams, train_side_by_side
from tailcloud.recipe import Recipe, Stage
from tailcloud.runs.folder import RunFolder
from tailcloud.training import loop

ENDLESS = 1_000_000  # epochs; a clock stops the run long before
FAILED = "failed"


@dataclass(frozen=True)
class Span:
    """How long to measure: epochs of warm-up, epochs that count, and when to stop in any case (``time.monotonic``)."""

    warm: int
    epochs: int
    deadline: float = float("inf")


class Enough(Exception):
    """A run was timed long enough."""


class NotMeasured(Exception):
    """A sentence that says why there is no figure."""


@dataclass
class Clock:
    """Watches one of several runs; they meet by leaving a file in a folder once they are warm."""

    span: Span
    meeting: Path
    runs: int
    ends: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    together: int | None = None  # epochs of this run that were over when all had met

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """Nothing to note."""

    def epoch_done(self, line: dict[str, Any]) -> None:  # noqa: ARG002
        """Note the time; stop when it is enough."""
        self.ends.append(time.monotonic())
        if len(self.ends) == self.span.warm:
            (self.meeting / f"warm-{uuid4().hex}").touch()
        if self.together is None and len(list(self.meeting.glob("warm-*"))) >= self.runs:
            self.together = len(self.ends)
        timed = 0 if self.together is None else len(self.ends) - self.together
        if timed >= self.span.epochs or self.ends[-1] > self.span.deadline or (self.meeting / FAILED).exists():
            raise Enough

    def give_up(self) -> None:
        """Release the other runs, which would wait for this one."""
        (self.meeting / FAILED).touch()

    def note(self, text: str) -> None:
        """Keep notes: they say if a run could not do what was requested."""
        self.notes.append(text)


def only(recipe: Recipe, stage: str) -> Recipe:
    """The recipe with one endless stage. What it computes does not depend on earlier training."""
    epochs = {name: ENDLESS if name == stage else 0 for name in recipe.stages}
    stages = {name: one.model_copy(update={"epochs": epochs[name]}) for name, one in recipe.stages.items()}
    return recipe.model_copy(update=stages)


@dataclass(frozen=True)
class Timed:
    """When the epochs of a run ended, and the bytes of memory that its process used at most."""

    ends: list[float]
    memory: int = 0
    notes: tuple[str, ...] = ()


def timed_run(recipe: Recipe, dataset: Dataset, device: torch.device, clock: Clock, home: Path) -> Timed:
    """One run in this process."""
    folder = RunFolder(home / f"seed{recipe.seed}")
    folder.create(recipe)
    reset_peak()
    try:
        loop.train(recipe, dataset, folder, device, clock)
    except Enough:
        pass
    except BaseException:
        clock.give_up()
        raise
    return Timed(clock.ends, peak_bytes(), tuple(clock.notes))


def timed_job(recipe: Recipe, dataset: Dataset, device: torch.device, clock: Clock, home: Path, _: object) -> Any:
    """The same as a job of a fleet."""
    return {"timed": timed_run(recipe, dataset, device, clock, home)}


def timed_fleet(
    recipe: Recipe, dataset: Dataset, device: torch.device, span: Span, runs: int, home: Path
) -> list[Timed]:
    """Several seeds of a recipe side by side, as ``tailcloud train`` would have them."""
    meeting = home / "meeting"
    meeting.mkdir(parents=True)
    recipes = [recipe.model_copy(update={"seed": seed}) for seed in range(runs)]
    clocks = [Clock(span, meeting, runs) for _ in recipes]
    if runs == 1:
        return [timed_run(recipes[0], dataset, device, clocks[0], home)]
    jobs = [partial(timed_job, one, dataset, device, clock, home) for one, clock in zip(recipes, clocks, strict=True)]
    outcomes = train_side_by_side(jobs, clocks) if device.type == "cpu" else train_on_streams(jobs, clocks, runs)
    for outcome in outcomes:
        if isinstance(outcome, TailcloudError):
            raise outcome
    timed: list[Any] = list(outcomes)  # of jobs that return other things than a result
    return [one["timed"] for one in timed]


def timed_plain(epochs: Iterator[float], span: Span) -> Timed:
    """The plain loop, timed from outside."""
    reset_peak()
    ends: list[float] = []
    for _ in epochs:
        ends.append(time.monotonic())
        if len(ends) >= span.warm + span.epochs or ends[-1] > span.deadline:
            break
    return Timed(ends, peak_bytes() + sum(map(shared_bytes, active_children_ids())))


def seconds_per_epoch(runs: Sequence[Timed], span: Span) -> float:
    """Of a run alone the median; of runs side by side the time for all of their epochs while all were warm, shared."""
    if any(len(run.ends) <= span.warm for run in runs):
        raise NotMeasured("the time limit came before a whole epoch could be timed")
    if len(runs) == 1:
        return float(np.median(np.diff(runs[0].ends[span.warm - 1 :])))
    start, end = max(run.ends[span.warm - 1] for run in runs), min(run.ends[-1] for run in runs)
    if end <= start:
        raise NotMeasured("the time limit came before all runs were under way")
    epochs = sum(float(np.diff(np.interp([start, end], run.ends, np.arange(len(run.ends))))[0]) for run in runs)
    return (end - start) / epochs


def reset_peak() -> None:
    """Reset the peak memory of this process, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    return _field("self", "status", "VmHWM")


def shared_bytes(process: int) -> int:
    """The memory of a process, what it shares with others divided by their number."""
    return _field(str(process), "smaps_rollup", "Pss")


def active_children_ids() -> list[int]:
    return [child.pid for child in active_children() if child.pid]


def _field(process: str, file: str, name: str) -> int:
    """A line such as ``VmHWM:  1234 kB``; 0 where the system has none."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0
