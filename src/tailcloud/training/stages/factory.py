"""The parts that a stage names, made: what it minimises, and what it does to the head before its first step."""

from collections.abc import Sequence

from tailcloud.head_transforms import HEAD_TRANSFORMS, HeadTransform
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Objective
from tailcloud.recipe import Stage


def make_loss(stage: Stage, counts: Sequence[int]) -> Loss:
    """The loss of a stage, knowing the class counts."""
    return LOSSES[stage.loss.name](counts, **stage.loss.options)


def make_objective(stage: Stage, loss: Loss, counts: Sequence[int], features: int = 1) -> Objective:
    """What a stage minimises with its loss, for a backbone of so many features."""
    return OBJECTIVES[stage.objective.name](loss, counts, features, **stage.objective.options)


def make_head_transform(stage: Stage, counts: Sequence[int]) -> HeadTransform:
    """What a stage does to the head before its first step."""
    return HEAD_TRANSFORMS[stage.head_transform.name](counts, **stage.head_transform.options)
