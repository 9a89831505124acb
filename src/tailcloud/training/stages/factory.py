"""Makes the loss, objective and head transform that a stage names."""

from collections.abc import Sequence

from tailcloud.head_transforms import HEAD_TRANSFORMS, HeadTransform
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Objective
from tailcloud.recipe import Stage


def make_loss(stage: Stage, counts: Sequence[int]) -> Loss:
    """The loss of a stage, for these class counts."""
    return LOSSES[stage.loss.name](counts, **stage.loss.options)


def make_objective(stage: Stage, loss: Loss, counts: Sequence[int], features: int = 1) -> Objective:
    """The objective of a stage with its loss, for a backbone of so many features."""
    return OBJECTIVES[stage.objective.name](loss, counts, features, **stage.objective.options)


def make_head_transform(stage: Stage, counts: Sequence[int]) -> HeadTransform:
    """The head transform before the first step of a stage."""
    return HEAD_TRANSFORMS[stage.head_transform.name](counts, **stage.head_transform.options)
