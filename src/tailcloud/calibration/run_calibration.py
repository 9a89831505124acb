"""The calibration of a run: the temperature and the class prior of its final model, from its recipe.

Also which stages of the recipe need held-out images.
"""

import numpy as np
from torch import nn

from tailcloud.calibration.held_out import predict_held_out
from tailcloud.calibration.priors import Prior, normalised, train_prior
from tailcloud.calibration.temperature import LogitCalibration, fit_temperature
from tailcloud.data import Dataset
from tailcloud.data.augment.cutmix import pasted_share
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.images import Images
from tailcloud.errors import UsageError
from tailcloud.evaluation.paired_difference import few_shot_classes, image_weights
from tailcloud.head_transforms.base import SHIFTED_HEADS
from tailcloud.heads import inference_kind
from tailcloud.recipe import Recipe, Stage, head_kinds
from tailcloud.sampling import class_shares
from tailcloud.training.stages.factory import make_head_transform, make_loss, make_objective

ABSENT = 0.5  # images, for a class without a held-out one
SMALLEST_SHARE = 1e-12  # of a class that no stage has trained on: it may still occur
SAME_SHARE = 1e-6  # shares of classes that differ by less are equal


def calibrate_run(
    model: nn.Module, images: Images | None, transform: Normalise, recipe: Recipe, counts: list[int]
) -> LogitCalibration:
    """The calibration of the outputs of a trained model.

    Args:
        model: the final model.
        images: the validation split; with fewer than 20 images, or None, nothing is fitted: the temperature is 1 and
            ``fitted_on`` None.
        transform: the normalisation of the images.
        recipe: what the model was trained with.
        counts: training images per class.
    """
    scale = make_loss(list(recipe.stages.values())[-1], counts).scale
    return calibrate(model, images, transform, scale, implied_prior(recipe, counts))


def calibrate(
    model: nn.Module, images: Images | None, transform: Normalise, scale: float, prior: Prior
) -> LogitCalibration:
    """The calibration of ``scale`` · outputs, which imply the class prior ``prior``, on held-out ``images``."""
    held_out = predict_held_out(model, images, transform, prior, absent=ABSENT)
    if held_out is None:
        return LogitCalibration(scale, 1.0, prior)
    temperature = fit_temperature(scale * held_out.outputs, held_out.target, held_out.shift)
    return LogitCalibration(scale, temperature, prior, "val", len(held_out.target))


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


def can_be_corrected(recipe: Recipe, counts: list[int]) -> bool:
    """Whether the last stage leaves equal shares of all classes, and a head whose outputs can be shifted.

    Then a further stage can correct the re-balancing on held-out images (``tuned-logit-adjust``).
    """
    prior = implied_prior(recipe, counts)
    shiftable = inference_kind(list(head_kinds(recipe).values())[-1]) in SHIFTED_HEADS
    return shiftable and bool(prior.max() - prior.min() < SAME_SHARE)


def _prior_after(stage: Stage, counts: list[int]) -> Prior:
    """The prior that a stage with epochs leaves."""
    samplers = stage.sampler, stage.second_sampler or stage.sampler
    first, second = (class_shares(sampler.name, counts, **sampler.options) for sampler in samplers)
    first = _with_pasted(stage, first, counts)
    objective = make_objective(stage, make_loss(stage, counts), counts)
    return objective.prior(first, second)


def _with_pasted(stage: Stage, shares: Prior, counts: list[int]) -> Prior:
    """The shares of classes among labels, if CutMix pastes images of another sampler."""
    sampler = stage.cutmix_sampler
    if sampler is None:
        return shares
    pasted = (stage.cutmix_probability or 1.0) * pasted_share(stage.cutmix)
    return (1 - pasted) * shares + pasted * class_shares(sampler.name, counts, **sampler.options)


def stages_needing_held_out(recipe: Recipe, dataset: Dataset) -> list[str]:
    """The stages whose head transform is fitted on held-out images."""
    counts = dataset.profile.counts.tolist()
    transforms = {name: make_head_transform(stage, counts) for name, stage in recipe.stages.items()}
    return [name for name, transform in transforms.items() if transform.needs_held_out]


def check_held_out(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse a recipe whose head transforms need held-out images that the data set does not have."""
    for name in stages_needing_held_out(recipe, dataset):
        if dataset.val:
            continue
        transform = recipe.stages[name].head_transform.name
        needs = f'{name}.head_transform = "{transform}" needs held-out images'
        if recipe.selection.split:
            raise UsageError(f"{needs}, but every class of {dataset.spec} is too small to hold one out; remove {name}")
        raise UsageError(f"{needs}, but {dataset.spec} has no validation split; add --set selection.split=0.1")


def check_selection(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse a choice on held-out images that the data set does not have."""
    selection = recipe.selection
    if selection.stage == "best" and not dataset.val:
        needs = f'selection.stage = "best" needs held-out images, and {dataset.spec} has none'
        way_out = "leave it out" if selection.split else "add --set selection.split=0.1, or leave it out"
        raise UsageError(f"{needs}; {way_out}")
    if selection.objective == "few":
        few_shot_classes(dataset.profile.counts)
    if selection.objective and dataset.val:
        image_weights(dataset.val.labels, dataset.profile.counts, selection.objective)
