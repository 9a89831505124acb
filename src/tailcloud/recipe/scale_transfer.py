"""FIRST+SECOND: what a second stage must know of a first one that it was not written for."""

from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES
from tailcloud.recipe.schema import Part, Recipe
from tailcloud.recipe.validate import head_kinds, try_part


def stretched(recipe: Recipe, asked: Part, name: str) -> Recipe:
    """A complete recipe whose second stage stretches cosines as its first one does, unless ``asked`` names a scale.

    ``asked`` is the loss of the second stage as it was written, before its options had their defaults.
    """
    stage = recipe.stage2
    if stage is None or "scale" in asked.options or "scale" not in stage.loss.options or not has_cosines(recipe, name):
        return recipe
    scale = try_part(f"{name}: stage1.loss", recipe.stage1.loss, LOSSES).scale
    loss = Part(name=stage.loss.name, **{**stage.loss.options, "scale": scale})
    return recipe.model_copy(update={"stage2": stage.model_copy(update={"loss": loss})})


def has_cosines(recipe: Recipe, name: str) -> bool:
    """Whether the head of the second stage has cosines for outputs; not where the check of all parts will refuse it."""
    return recipe.model.head in HEADS and HEADS[head_kinds(recipe, name)["stage2"]].cosine
