"""The learning rate of each epoch."""

import math

from tailcloud.recipe import Stage

LONGEST_WARMUP = 5  # a warm-up takes at most 1/5 of a stage


def learning_rate(stage: Stage, epoch: int) -> float:
    """The learning rate of an epoch, counted from 0; constant within the epoch.

    Linear warm-up over the first epochs (lr·1/5, lr·2/5 … for five), then either steps, × ``decay`` at each
    milestone (a fraction of the epochs), or half a cosine from ``lr`` to almost 0.
    """
    warmup = min(stage.warmup, stage.epochs // LONGEST_WARMUP)
    if epoch < warmup:
        return stage.lr * (epoch + 1) / warmup
    if stage.schedule == "cosine":
        return stage.lr * (1 + math.cos(math.pi * epoch / stage.epochs)) / 2
    passed = sum(epoch >= round(milestone * stage.epochs) for milestone in stage.milestones)
    return stage.lr * stage.decay**passed
