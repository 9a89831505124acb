"""Names of parts of a model in a recipe: what a stage trains, and how fast. Misspelt ones are found at once."""

from tailcloud.classifier import hollow_head
from tailcloud.errors import UsageError
from tailcloud.recipe.checks import head_kinds
from tailcloud.recipe.schema import Recipe


def check_names(recipe: Recipe, name: str) -> None:
    """Every stage trains something that its head has, and its factors of the learning rate are of something."""
    for stage_name, kind in head_kinds(recipe, name).items():
        stage = recipe.stages[stage_name]
        parameters = [f"head.{parameter}" for parameter, _ in hollow_head(kind).named_parameters()]
        has = f"its head has {', '.join(parameters) or 'nothing to train'}"
        if stage.epochs and stage.train != "all" and not belongs(parameters, stage.train):
            raise UsageError(f'{name}: {stage_name}.train = "{stage.train}" names no part of its model; {has}')
        for part in stage.lr_factors:
            if not belongs([*parameters, "backbone"], part) and not part.startswith("backbone."):
                raise UsageError(f'{name}: {stage_name}.lr_factors: "{part}" is no part of its model; {has}')


def belongs(parameters: list[str], part: str) -> bool:
    """Whether any of these parameters is that part or in it."""
    return any(f"{parameter}.".startswith(f"{part}.") for parameter in parameters)
