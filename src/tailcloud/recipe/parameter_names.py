"""Checks the names of model parts in a recipe: what a stage trains, and its learning-rate factors."""

from functools import cache, partial

from tailcloud.backbones.adapters import transformer_blocks
from tailcloud.classifier import meta_backbone, meta_head
from tailcloud.errors import UsageError
from tailcloud.recipe.schema import ADAPTERS, Model, Recipe, Stage
from tailcloud.recipe.validate import as_usage_error, head_kinds


def check_names(recipe: Recipe, name: str) -> None:
    """Every part that a stage trains or has a learning-rate factor for is in its model."""
    check_adapters(recipe.model, name)
    for stage_name, kind in head_kinds(recipe, name).items():
        stage = recipe.stages[stage_name]
        head = [f"head.{parameter}" for parameter, _ in meta_head(kind, recipe.model.experts).named_parameters()]
        has = f"its head has {', '.join(head) or 'nothing to train'}"
        for part in stage.parts if stage.epochs and stage.train != "all" else ():
            if part == ADAPTERS:
                check_has_adapters(recipe.model, f"{name}: {stage_name}.train")
            elif part in stage.backbone_parts:
                check_backbone_part(recipe, part, f'{name}: {stage_name}.train = "{part}"')
            elif part != "backbone" and not belongs(head, part):
                raise UsageError(f'{name}: {stage_name}.train = "{part}" is not a part of its model; {has}')
        check_factors(recipe, stage, head, f"{name}: {stage_name}.lr_factors", has)


def check_adapters(model: Model, name: str) -> None:
    """Refuse adapters on a backbone that is no transformer."""
    if model.adapter != "none":
        as_usage_error(name, partial(transformer_blocks, meta_backbone(model.backbone, model.width), model.adapter))


def check_has_adapters(model: Model, where: str) -> None:
    """Refuse to train adapters of a model without any."""
    if model.adapter == "none":
        raise UsageError(
            f'{where} = "{ADAPTERS}", and model.adapter = "none"; set model.adapter to "lora" or "adaptformer"'
        )


def frozen_remarks(recipe: Recipe) -> list[str]:
    """A remark if the first stage freezes parts of a backbone that has no pretrained weights."""
    stage, model = recipe.stage1, recipe.model
    if model.pretrained or not stage.epochs or {"all", "backbone"} & set(stage.parts):
        return []
    return [
        f'stage1.train = "{stage.train}", and model.weights is not set: the other parts of {model.backbone} '
        "keep their random initial weights."
    ]


def check_backbone_part(recipe: Recipe, part: str, setting: str) -> None:
    """Refuse a name that is not a part of the backbone; ``setting`` is what the recipe says."""
    parameters = backbone_parameters(recipe.model.backbone, recipe.model.width)
    if not belongs(parameters, part):
        children = dict.fromkeys(".".join(parameter.split(".")[:2]) for parameter in parameters)
        raise UsageError(f"{setting} is not a part of its model; its backbone has {', '.join(children)}")


@cache
def backbone_parameters(backbone: str, width: float) -> list[str]:
    """The names of a backbone's parameters in a model."""
    return [f"backbone.{parameter}" for parameter, _ in meta_backbone(backbone, width).named_parameters()]


def check_factors(recipe: Recipe, stage: Stage, head: list[str], where: str, has: str) -> None:
    """Refuse learning-rate factors for unknown parts."""
    for part in stage.lr_factors:
        if part.startswith("backbone."):
            check_backbone_part(recipe, part, f'{where}: "{part}"')
        elif not belongs([*head, "backbone"], part):
            raise UsageError(f'{where}: "{part}" is not a part of its model; {has}')


def belongs(parameters: list[str], part: str) -> bool:
    """Whether any of these parameters is that part or inside it."""
    return any(f"{parameter}.".startswith(f"{part}.") for parameter in parameters)
