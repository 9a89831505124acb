"""The class prior that a trained model's outputs imply: it follows from the samplers, losses and head transforms."""

import numpy as np

from tailcloud.calibration.priors import Prior, normalised, train_prior
from tailcloud.recipe import Recipe, Stage
from tailcloud.sampling import class_shares
from tailcloud.training.stages.factory import make_head_transform, make_loss, make_objective

SMALLEST_SHARE = 1e-12  # a class that no stage has shown may still occur


def implied_prior(recipe: Recipe, counts: list[int], before: str | None = None) -> Prior:
    """The prior after the last stage, or ``before`` the stage of that name; one share per class, none of them 0.

    A stage that trains sets the prior, through its samplers and its objective. A stage without epochs only transforms
    the head, which changes the prior of the stage before.
    """
    known = [max(count, 1) for count in counts]  # an absent class counts as one image
    prior = train_prior(known)
    for name, stage in recipe.stages.items():
        if name == before:
            break
        prior = _prior_after(stage, known) if stage.epochs else make_head_transform(stage, known).prior(prior)
    return normalised(np.maximum(prior, SMALLEST_SHARE))


def _prior_after(stage: Stage, counts: list[int]) -> Prior:
    """The prior that a stage with epochs leaves."""
    samplers = stage.sampler, stage.second_sampler or stage.sampler
    first, second = (class_shares(sampler.name, counts, **sampler.options) for sampler in samplers)
    objective = make_objective(stage, make_loss(stage, counts), counts)
    return objective.prior(first, second)
