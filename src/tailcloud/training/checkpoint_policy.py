"""When a run is saved, and when it stops after SIGTERM.

A save copies the state of the run, on its device; a thread then writes the copy while the run continues
(``runs.checkpoint_writer``). The run waits for the file where somebody relies on it: at the end of a stage, before it
stops, and after every epoch if ``checkpoint_seconds`` is 0.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from tailcloud.flat_copy import Snapshot
from tailcloud.runs.checkpoint import Checkpoint, TrainingProgress, save_checkpoint
from tailcloud.runs.checkpoint_writer import CheckpointWriter
from tailcloud.runs.folder import RunFolder
from tailcloud.training import signals
from tailcloud.training.executors.base import EpochState
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

MIN_TRAINING_PER_SAVE = 50  # time between two saves over the time that a save takes, copy and file together
STEPS_BETWEEN_CHECKS = 8  # with several ranks, which have to exchange a message for each check
SLOW_SECONDS = 2.0  # if so many steps take longer, check after every step
UNFINISHED_EPOCH = "standing"  # prefix of the tensors of an EpochState in a checkpoint file


@dataclass
class Checkpointer:
    """Saves one stage of a run while it trains. All ranks call its methods at the same steps.

    Train inside ``with checkpointer:`` so that nothing is written any more when the stage is left, by an error too.
    """

    session: Session
    folder: RunFolder
    progress: TrainingProgress
    parts: StageParts
    saved_at: float = field(default_factory=time.perf_counter)
    epoch_started_at: float = 0.0
    copy_seconds: float = 0.0  # what the last copy took
    writer: CheckpointWriter = field(default_factory=CheckpointWriter)
    steps: int = 0
    check_every: int = 1  # steps
    checked_at: float = field(default_factory=time.perf_counter)

    def __enter__(self) -> Self:
        """Nothing is written yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for what is still being written. If it fails, that is the error, unless there is another."""
        if error is None:
            self.writer.wait()
        else:
            self.writer.finish()

    def epoch_started(self) -> None:
        """Saves within an epoch are due from here on: an epoch that is shorter is saved when it is done."""
        self.epoch_started_at = self.checked_at = time.perf_counter()

    def between_steps(self) -> None:
        """Save in the middle of an epoch if that is due; save and stop after SIGTERM."""
        self.steps += 1
        world = self.session.world
        if world.size > 1 and self.steps % self.check_every:
            return
        stop, save, slow = world.any(signals.stop_requested(), world.rank0 and self.due, self.slow)
        self.check_every, self.checked_at = 1 if slow else STEPS_BETWEEN_CHECKS, time.perf_counter()
        if stop or save:
            self.save(self.parts.executor.state(), wait=stop)
        if stop:
            raise terminated(self.folder)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Around the evaluation after an epoch: if SIGTERM stops it, the steps of the epoch are saved."""
        try:
            yield
        except signals.EvaluationStopped:
            self.save(self.parts.executor.state(), wait=True)
            raise terminated(self.folder) from None

    @property
    def due(self) -> bool:
        """Whether an unfinished epoch should be saved; never if ``checkpoint_seconds`` is 0 (after every epoch)."""
        since = time.perf_counter() - max(self.saved_at, self.epoch_started_at)
        return not self.every_epoch and since >= self.interval

    @property
    def every_epoch(self) -> bool:
        """Whether each epoch is on the disk before the next one starts."""
        return self.session.recipe.engine.checkpoint_seconds == 0

    @property
    def interval(self) -> float:
        """The seconds between two saves: those of the recipe, or more if saving would take too much of the time."""
        cost = self.copy_seconds + self.writer.seconds
        return max(self.session.recipe.engine.checkpoint_seconds, MIN_TRAINING_PER_SAVE * cost)

    @property
    def slow(self) -> bool:
        """Whether the steps since the last check were so slow that every step should be checked."""
        return time.perf_counter() - self.checked_at > SLOW_SECONDS * self.check_every / STEPS_BETWEEN_CHECKS

    def epoch_done(self, *, last: bool) -> bool:
        """Save after an epoch, unless the last save was recent. Returns whether the run should stop here."""
        (stop,) = self.session.world.any(signals.stop_requested())
        wait = last or stop or self.every_epoch
        if wait or time.perf_counter() - self.saved_at >= self.interval:
            self.save(wait=wait)
        return stop

    def save(self, state: EpochState | None = None, *, wait: bool) -> None:
        """Save a checkpoint, on rank 0; ``state`` is that of an unfinished epoch. ``wait`` until it is on the disk."""
        started = time.perf_counter()
        if self.session.world.rank0:
            progress = replace(self.progress)
            if state:
                progress.step, progress.spent = len(state.losses), progress.spent + started - self.epoch_started_at
            checkpoint = make_checkpoint(self.session, self.parts, progress, state)
            copy = Snapshot(checkpoint.tensors)
            name = progress.stage, progress.epoch, progress.step
            self.writer.submit(partial(write_checkpoint, self.folder, name, copy, checkpoint.state))
            self.copy_seconds = time.perf_counter() - started
            if wait:
                self.writer.wait()
        self.saved_at = time.perf_counter()


def write_checkpoint(folder: RunFolder, name: tuple[str, int, int], copy: Snapshot[str], state: dict[str, Any]) -> None:
    """Write the checkpoint of a stage, epoch and step. The log comes first: it has all epochs of a checkpoint."""
    stage, epoch, step = name
    folder.sync_log()
    save_checkpoint(folder.checkpoints, stage, epoch, Checkpoint(copy.on_cpu(), state), step)


def terminated(folder: RunFolder) -> signals.Terminated:
    """The error that ends a saved run after SIGTERM."""
    return signals.Terminated(f'stopped by SIGTERM; continue with "tailcloud train --resume --out {folder.path}"')


def make_checkpoint(
    session: Session, parts: StageParts, progress: TrainingProgress, state: EpochState | None = None
) -> Checkpoint:
    """Everything that the rest of the run depends on."""
    groups = {
        "model": session.model.state_dict(),
        "best": progress.best_weights,
        UNFINISHED_EPOCH: vars(state) if state else {},
    }
    tensors = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    tensors |= parts.optimizer.state
    about = {
        "environment": session.environment,
        "fingerprint": session.dataset.fingerprint,
        "recipe": session.recipe.substance(),
    }
    return Checkpoint(tensors, {**progress.state(), **about})


def unfinished_epoch(checkpoint: Checkpoint | None, progress: TrainingProgress) -> EpochState | None:
    """The state of the epoch in which a checkpoint was saved; None if it was saved after an epoch."""
    if checkpoint is None or not progress.step:
        return None
    return EpochState(**checkpoint.group(UNFINISHED_EPOCH))
