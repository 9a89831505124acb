"""``tailcloud train --like RUN``: another method, trained as RUN was, so that the two can be compared."""

from typing import Any

from tailcloud.backbones import plain_name
from tailcloud.calibration.run_calibration import can_be_corrected
from tailcloud.head_transforms import HEAD_TRANSFORMS
from tailcloud.recipe import Recipe, Stage, load_recipe, resolve
from tailcloud.recipe.library import default_recipe
from tailcloud.recipe.validate import compares_views
from tailcloud.runs.folder import NAME_DATA, RunFolder

# The fields of a first stage that make the method; all others are RUN's.
MIXING = {"mixup", "cutmix", "cutmix_sampler", "cutmix_probability"}
OF_METHOD = {"sampler", "second_sampler", *MIXING, "loss", "objective", "head_transform"}
ANY_COUNTS = [10, 1]  # to see whether a method re-balances classes


def recipe_as_trained(run: RunFolder, data: str | None = None) -> Recipe:
    """The recipe of a run, with the epochs that were trained: a time budget may have ended its stages earlier.

    ``data`` takes the place of its data, for example where they are now.
    """
    if run.exists and data is None:
        run.check_data(way_out=NAME_DATA)
    recipe = run.recipe({"data": {"spec": data}} if data else None)
    trained = {stage.name: stage.epochs for stage in run.result().stages} if run.finished else {}
    stages = {
        name: stage.model_copy(update={"epochs": trained.get(name, stage.epochs)})
        for name, stage in recipe.stages.items()
    }
    return recipe.model_copy(update=stages)


def recipe_like(run: Recipe, method: str) -> Recipe:
    """The recipe of a run with another method.

    Data, network, weights, augmentation, selection, seed, and epochs, batch, optimiser and schedule of the first stage
    are the run's. Loss, sampler, mixup and head are the method's, and so are its later stages, with the run's epochs
    and batch. A network from pretrained weights has the run's mixup, because methods have theirs for training from
    scratch.
    """
    if method == run.method:
        return run
    other = load_recipe(f"{default_recipe(run.data.spec).partition('/')[0]}/{method}", [{"data": run.data.spec}])
    mixup = {"mixup": run.stage1.mixup} if run.model.pretrained else {}
    unused = set() if compares_views(other) else {"view_augment"}
    table: dict[str, Any] = {
        **run.model_dump(exclude={"stage1", "stage2", "stage3", *unused}, exclude_none=True),
        "method": method,
        "model": run.model.model_dump(exclude_none=True)
        | {"backbone": plain_name(run.model.backbone), "head": other.model.head}
        | {"branches": other.model.branches, "experts": other.model.experts},
        "stage1": run.stage1.model_dump(exclude=OF_METHOD, exclude_none=True)
        | other.stage1.model_dump(include=OF_METHOD, exclude_none=True)
        | mixup,
    }
    for name, stage in list(other.stages.items())[1:]:
        table[name] = later_stage(stage, run.stages.get(name), run.stage1) | mixup
    found = resolve(table, f"{run.method} with the method {method}")
    return with_correction(found, run.stage3)


def later_stage(stage: Stage, same: Stage | None, first: Stage) -> dict[str, Any]:
    """A later stage of the method, with the epochs and batch of the run's own one, or the batch of its first stage."""
    if not stage.epochs:
        return stage.model_dump(exclude_none=True) | {"views": first.views}
    epochs = {"epochs": same.epochs} if same and same.epochs else {}
    on_features = {"views": first.views} if stage.trains_only_head and not stage.second_sampler else {}
    return stage.model_dump(exclude_none=True) | {"batch": (same or first).batch, **epochs, **on_features}


def with_correction(recipe: Recipe, third: Stage | None) -> Recipe:
    """The recipe with the run's correction on held-out images, if it has one and the method re-balances classes."""
    if third is None or third.epochs or recipe.stage3:
        return recipe
    fitted = HEAD_TRANSFORMS[third.head_transform.name](ANY_COUNTS, **third.head_transform.options).needs_held_out
    if not (fitted and can_be_corrected(recipe, ANY_COUNTS)):
        return recipe
    correction = {"head_transform": third.head_transform.model_dump(), "views": third.views}
    return resolve({**recipe.model_dump(exclude_none=True), "stage3": correction}, recipe.method)
