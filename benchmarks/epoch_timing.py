"""Time the epochs of a run, with evaluation, log and checkpoints.

The run goes through ``tailcloud.training.loop`` and is watched by an observer that notes when epochs end, and that
stops the run once it was timed long enough.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tailcloud.data import Dataset
from tailcloud.recipe import Recipe, Stage
from tailcloud.runs.folder import RunFolder
from tailcloud.training import loop

ENDLESS = 1_000_000  # epochs; a clock stops the run long before


@dataclass(frozen=True)
class Span:
    """How long to measure: epochs of warm-up, and epochs that count."""

    warm: int
    epochs: int


class Enough(Exception):
    """A run was timed long enough."""


class NotMeasured(Exception):
    """A sentence that says why there is no figure."""


@dataclass
class Clock:
    """Watches a run."""

    span: Span
    ends: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """Nothing to note."""

    def epoch_done(self, line: dict[str, Any]) -> None:  # noqa: ARG002
        """Note the time; stop when it is enough."""
        self.ends.append(time.monotonic())
        if len(self.ends) >= self.span.warm + self.span.epochs:
            raise Enough

    def note(self, text: str) -> None:
        """Keep notes: they say if a run could not do what was requested."""
        self.notes.append(text)


def only(recipe: Recipe, stage: str) -> Recipe:
    """The recipe with one endless stage, evaluated after every epoch. Earlier training changes no time."""
    epochs = {name: ENDLESS if name == stage else 0 for name in recipe.stages}
    stages = {name: one.model_copy(update={"epochs": epochs[name]}) for name, one in recipe.stages.items()}
    selection = recipe.selection.model_copy(update={"every": 1})
    return recipe.model_copy(update={**stages, "selection": selection})


@dataclass(frozen=True)
class Timed:
    """When the epochs of a run ended, and the bytes of memory that its process used at most."""

    ends: list[float]
    memory: int = 0
    notes: tuple[str, ...] = ()


def timed_run(recipe: Recipe, dataset: Dataset, device: torch.device, span: Span, home: Path) -> Timed:
    """One run in this process."""
    folder, clock = RunFolder(home), Clock(span)
    folder.create(recipe)
    reset_peak()
    with suppress(Enough):
        loop.train(recipe, dataset, folder, device, clock)
    return Timed(clock.ends, peak_bytes(), tuple(clock.notes))


def timed_plain(epochs: Iterator[float], span: Span) -> Timed:
    """The plain loop, timed from outside."""
    reset_peak()
    ends: list[float] = []
    for _ in epochs:
        ends.append(time.monotonic())
        if len(ends) >= span.warm + span.epochs:
            break
    return Timed(ends, peak_bytes() + sum(map(shared_bytes, active_children_ids())))


def seconds_per_epoch(run: Timed, span: Span) -> float:
    """The median of the epochs that count."""
    return float(np.median(np.diff(run.ends[span.warm - 1 :])))


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
