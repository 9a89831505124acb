"""Which mix of classes a trained model's outputs assume: it follows from what the last stages showed and minimised."""

import numpy as np

from tailcloud.calibration.priors import Prior, normalised, train_prior
from tailcloud.recipe import Recipe, Stage
from tailcloud.sampling import class_shares
from tailcloud.training.stages.factory import make_head_transform, make_loss, make_objective

LEAST = 1e-12  # a class that no stage has shown is not known to be impossible


def assumed_prior(recipe: Recipe, counts: list[int], before: str | None = None) -> Prior:
    """The mix after the last stage, or ``before`` the stage of that name; one share per class, none of them 0.

    A stage that trains leaves what its objective says about the images that it has shown. A stage of no epochs only
    changes the head, and with it the mix of the stage before.
    """
    known = [max(count, 1) for count in counts]  # an absent class counts as one image
    prior = train_prior(known)
    for name, stage in recipe.stages.items():
        if name == before:
            break
        prior = _trained(stage, known) if stage.epochs else make_head_transform(stage, known).prior(prior)
    return normalised(np.maximum(prior, LEAST))


def _trained(stage: Stage, counts: list[int]) -> Prior:
    samplers = stage.sampler, stage.second_sampler or stage.sampler
    first, second = (class_shares(sampler.name, counts, **sampler.options) for sampler in samplers)
    objective = make_objective(stage, make_loss(stage, counts), counts)
    return objective.prior(first, second)
