"""The learning rate of each epoch, or of each step; also of a stage that ends earlier than planned."""

import math
from dataclasses import dataclass, replace

from tailcloud.recipe import Stage

LONGEST_WARMUP = 5  # a warm-up takes at most 1/5 of a stage


def learning_rates(stage: Stage, epoch: int, steps: int) -> list[float]:
    """The learning rate of each step of an epoch, counted from 0; ``lr_interval`` says how often it changes."""
    if stage.lr_interval == "epoch":
        return [learning_rate(stage, epoch)] * steps
    return [learning_rate(stage, epoch * steps + step, steps) for step in range(steps)]


def learning_rate(stage: Stage, number: float, per_epoch: int = 1) -> float:
    """The learning rate of an epoch, or of a step of the stage if there are several per epoch; counted from 0.

    Linear warm-up over the first epochs (lr·1/5, lr·2/5 … for five), then either steps, × ``decay`` at each
    milestone (a fraction of the stage), or half a cosine from ``lr`` to almost 0.
    """
    length = stage.epochs * per_epoch
    warmup = min(round(stage.warmup * per_epoch), length // LONGEST_WARMUP)
    if number < warmup:
        return stage.lr * (number + 1) / warmup
    if stage.schedule == "cosine":
        return stage.lr * (1 + math.cos(math.pi * number / length)) / 2
    passed = sum(number >= round(milestone * length) for milestone in stage.milestones)
    return stage.lr * stage.decay**passed


@dataclass(frozen=True)
class EarlyEnd:
    """A stage that ends earlier than planned: from step ``start`` on, the rest of its schedule is compressed.

    Attributes:
        start: the step of the stage at which that was decided.
        position: the step of the planned schedule that it had reached there.
        end: the steps that the stage has now.
    """

    start: int
    position: float
    end: int


@dataclass(frozen=True)
class StageSchedule:
    """The learning rates of a stage with ``steps`` per epoch.

    Without ``early_end`` they are those of ``learning_rates``. With it, step s ≥ start has the rate of the planned step
    position + (planned − position)·(s − start)/(end − start): the schedule is passed through to its end, only faster.
    """

    stage: Stage
    steps: int
    early_end: EarlyEnd | None = None

    @property
    def planned(self) -> int:
        """The steps of the stage as the recipe has it."""
        return self.stage.epochs * self.steps

    @property
    def end(self) -> int:
        """The steps of the stage."""
        return self.early_end.end if self.early_end else self.planned

    @property
    def epochs(self) -> int:
        """The epochs of the stage; the last may be shorter than the others."""
        return -(-self.end // self.steps)

    def position(self, step: int) -> float:
        """Which step of the planned schedule a step corresponds to."""
        early = self.early_end
        if early is None or step < early.start:
            return step
        if early.end == early.start:
            return self.planned
        return early.position + (self.planned - early.position) * (step - early.start) / (early.end - early.start)

    def progress(self, epoch: int) -> float:
        """The share of the stage that is done before an epoch, 0 ≤ progress < 1."""
        return self.position(epoch * self.steps) / self.planned

    def rates(self, epoch: int) -> list[float]:
        """The learning rate of each step of an epoch, as many as it has."""
        if self.early_end is None:
            return learning_rates(self.stage, epoch, self.steps)
        first = epoch * self.steps
        positions = [self.position(step) for step in range(first, min(first + self.steps, self.end))]
        if self.stage.lr_interval == "epoch":
            return [learning_rate(self.stage, math.floor(position / self.steps)) for position in positions]
        return [learning_rate(self.stage, position, self.steps) for position in positions]

    def ending_after(self, done: int, more: int) -> "StageSchedule":
        """The schedule that ends after ``more`` steps, if ``done`` steps are done; never later than planned."""
        end = min(done + more, self.planned)
        return replace(self, early_end=EarlyEnd(done, self.position(done), end))
