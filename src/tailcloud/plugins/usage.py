"""Whether a recipe uses parts from plugins."""

from tailcloud.plugins.registry import REGISTERED
from tailcloud.recipe import Recipe


def uses_plugins(recipe: Recipe) -> bool:
    """Whether a method or a part of the recipe was registered by a plugin of this process."""
    named = {("method", method) for method in recipe.method.split("+")}
    named |= {("backbone", recipe.model.backbone), ("head", recipe.model.head)}
    for stage in recipe.stages.values():
        samplers = [part for part in (stage.sampler, stage.second_sampler) if part]
        named |= {("loss", stage.loss.name), *(("sampler", part.name) for part in samplers)}
    return not named.isdisjoint(REGISTERED)
