"""When a run is saved, and when it stops after SIGTERM."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tailcloud.runs.checkpoint import Checkpoint, TrainingProgress, save_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.training import signals
from tailcloud.training.executors.base import EpochState
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

MIN_TRAINING_PER_SAVE = 20  # within an epoch, training time between two saves over the time that a save takes
STEPS_BETWEEN_CHECKS = 8  # with several ranks, which have to exchange a message for each check
SLOW_SECONDS = 2.0  # if so many steps take longer, check after every step
UNFINISHED_EPOCH = "standing"  # prefix of the tensors of an EpochState in a checkpoint file


@dataclass
class Checkpointer:
    """Saves one stage of a run while it trains. All ranks call its methods at the same steps."""

    session: Session
    folder: RunFolder
    progress: TrainingProgress
    parts: StageParts
    saved_at: float = field(default_factory=time.perf_counter)
    epoch_started_at: float = 0.0
    save_seconds: float = 0.0  # what the last save took
    steps: int = 0
    check_every: int = 1  # steps
    checked_at: float = field(default_factory=time.perf_counter)

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
            self.save(self.parts.executor.state())
        if stop:
            raise terminated(self.folder)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Around the evaluation after an epoch: if SIGTERM stops it, the steps of the epoch are saved."""
        try:
            yield
        except signals.EvaluationStopped:
            self.save(self.parts.executor.state())
            raise terminated(self.folder) from None

    @property
    def due(self) -> bool:
        """Whether an unfinished epoch should be saved; never if ``checkpoint_seconds`` is 0 (after every epoch)."""
        seconds = self.session.recipe.engine.checkpoint_seconds
        since = time.perf_counter() - max(self.saved_at, self.epoch_started_at)
        return seconds > 0 and since >= max(seconds, MIN_TRAINING_PER_SAVE * self.save_seconds)

    @property
    def slow(self) -> bool:
        """Whether the steps since the last check were so slow that every step should be checked."""
        return time.perf_counter() - self.checked_at > SLOW_SECONDS * self.check_every / STEPS_BETWEEN_CHECKS

    def epoch_done(self, *, last: bool) -> bool:
        """Save after an epoch, unless the last save was recent. Returns whether the run should stop here."""
        (stop,) = self.session.world.any(signals.stop_requested())
        if last or stop or time.perf_counter() - self.saved_at >= self.session.recipe.engine.checkpoint_seconds:
            self.save()
        return stop

    def save(self, state: EpochState | None = None) -> None:
        """Write a checkpoint, on rank 0; ``state`` is that of an unfinished epoch."""
        started = time.perf_counter()
        if self.session.world.rank0:
            progress = replace(self.progress)
            if state:
                progress.step, progress.spent = len(state.losses), progress.spent + started - self.epoch_started_at
            checkpoint = make_checkpoint(self.session, self.parts, progress, state)
            save_checkpoint(self.folder.checkpoints, progress.stage, progress.epoch, checkpoint, progress.step)
        self.saved_at = time.perf_counter()
        self.save_seconds = self.saved_at - started


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
