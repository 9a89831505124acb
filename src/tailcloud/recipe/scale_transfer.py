"""FIRST+SECOND: the second stage takes the logit scale of a first stage that it was not written for."""

from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES
from tailcloud.recipe.schema import PartSpec, Recipe
from tailcloud.recipe.validate import head_kinds, try_part


def with_scale_of_first_stage(recipe: Recipe, written: PartSpec, name: str) -> Recipe:
    """A complete recipe whose second stage scales cosines as its first one does, unless ``written`` sets a scale.

    ``written`` is the loss of the second stage in the recipe, before default options were filled in.
    """
    stage = recipe.stage2
    if (
        stage is None
        or "scale" in written.options
        or "scale" not in stage.loss.options
        or not has_cosines(recipe, name)
    ):
        return recipe
    scale = try_part(f"{name}: stage1.loss", recipe.stage1.loss, LOSSES).scale
    loss = PartSpec(name=stage.loss.name, **{**stage.loss.options, "scale": scale})
    return recipe.model_copy(update={"stage2": stage.model_copy(update={"loss": loss})})


def has_cosines(recipe: Recipe, name: str) -> bool:
    """Whether the outputs of the second stage's head are cosines; False for an unknown head, refused later."""
    return recipe.model.head in HEADS and HEADS[head_kinds(recipe, name)["stage2"]].cosine
