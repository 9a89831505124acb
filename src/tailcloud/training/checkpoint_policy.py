"""When a run is saved, and when it ends because somebody asks it to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tailcloud.runs.checkpoint import Checkpoint, save_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.progress import TrainingProgress
from tailcloud.training import signals
from tailcloud.training.executors.cuda_graph import Standing
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

WORK_PER_SAVING = 20  # within an epoch, so many times what saving takes is spent on training
ASK_EVERY = 8  # steps, where processes must agree
SOON = 2.0  # seconds: where so many steps take longer, they agree after each of them


@dataclass
class Keeper:
    """Saves one stage of a run as it goes on. All processes that share a run ask at the same steps."""

    session: Session
    folder: RunFolder
    progress: TrainingProgress
    parts: StageParts
    saved: float = field(default_factory=time.perf_counter)
    began: float = 0.0
    took: float = 0.0  # seconds, to save
    steps: int = 0
    every: int = 1  # steps between two questions
    asked: float = field(default_factory=time.perf_counter)

    def epoch_begins(self) -> None:
        """What is due within an epoch counts from here: one that is shorter is saved when it is done."""
        self.began = self.asked = time.perf_counter()

    def between_steps(self) -> None:
        """Save in the middle of an epoch if it is time; save and stop if somebody asks for it."""
        self.steps += 1
        world = self.session.world
        if world.size > 1 and self.steps % self.every:
            return
        stop, save, slow = world.any(signals.asked(), world.chief and self.due, self.slow)
        self.every, self.asked = 1 if slow else ASK_EVERY, time.perf_counter()
        if stop or save:
            self.save(self.parts.executor.standing())
        if stop:
            raise terminated(self.folder)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Around what measures an epoch whose steps are done: where it is broken off, these are saved."""
        try:
            yield
        except signals.BrokenOff:
            self.save(self.parts.executor.standing())
            raise terminated(self.folder) from None

    @property
    def due(self) -> bool:
        """Whether an epoch that is under way should be saved; never where every epoch is saved when it is done."""
        seconds = self.session.recipe.engine.checkpoint_seconds
        since = time.perf_counter() - max(self.saved, self.began)
        return seconds > 0 and since >= max(seconds, WORK_PER_SAVING * self.took)

    @property
    def slow(self) -> bool:
        """Whether the steps since the last question took so long that nobody should wait for several of them."""
        return time.perf_counter() - self.asked > SOON * self.every / ASK_EVERY

    def epoch_ends(self, *, last: bool) -> bool:
        """Save after an epoch, unless the last time is not long ago. Whether somebody asks the run to stop here."""
        (stop,) = self.session.world.any(signals.asked())
        if last or stop or time.perf_counter() - self.saved >= self.session.recipe.engine.checkpoint_seconds:
            self.save()
        return stop

    def save(self, standing: Standing | None = None) -> None:
        """Write a checkpoint, if this process is the one that writes; ``standing`` is that of an epoch under way."""
        started = time.perf_counter()
        if self.session.world.chief:
            progress = replace(self.progress)
            if standing:
                progress.step, progress.spent = len(standing.losses), progress.spent + started - self.began
            kept = snapshot(self.session, self.parts, progress, standing)
            save_checkpoint(self.folder.checkpoints, progress.stage, progress.epoch, kept, progress.step)
        self.saved = time.perf_counter()
        self.took = self.saved - started


def terminated(folder: RunFolder) -> signals.Terminated:
    """The end of a run that was asked to end."""
    return signals.Terminated(f'stopped by SIGTERM; go on with "tailcloud train --resume --out {folder.path}"')


def snapshot(
    session: Session, parts: StageParts, progress: TrainingProgress, standing: Standing | None = None
) -> Checkpoint:
    """Everything that the rest of the run depends on."""
    groups = {
        "model": session.model.state_dict(),
        "best": progress.best_weights,
        "standing": vars(standing) if standing else {},
    }
    tensors = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    tensors |= parts.optimizer.state
    about = {
        "environment": session.environment,
        "fingerprint": session.dataset.fingerprint,
        "recipe": session.recipe.substance(),
    }
    return Checkpoint(tensors, {**progress.state(), **about})
