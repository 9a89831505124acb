"""The learning rate of each epoch, or of each step."""

import math

from tailcloud.recipe import Stage

LONGEST_WARMUP = 5  # a warm-up takes at most 1/5 of a stage


def learning_rates(stage: Stage, epoch: int, steps: int) -> list[float]:
    """The learning rate of each step of an epoch, counted from 0; ``lr_interval`` says how often it changes."""
    if stage.lr_interval == "epoch":
        return [learning_rate(stage, epoch)] * steps
    return [learning_rate(stage, epoch * steps + step, steps) for step in range(steps)]


def learning_rate(stage: Stage, number: int, per_epoch: int = 1) -> float:
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
