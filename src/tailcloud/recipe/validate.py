"""Is a recipe right? Every part exists, takes its options and fits the others; every error is a sentence."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tailcloud.backbones import branched, check_backbone
from tailcloud.data import parse_spec
from tailcloud.errors import UsageError, unknown
from tailcloud.head_transforms import HEAD_TRANSFORMS
from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Objective
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.recipe.schema import Augment, Part, Recipe, Stage
from tailcloud.sampling import WEIGHTS

TRIAL_COUNTS = [10, 1]
Built = TypeVar("Built")
SMALLEST_SCALE = 2.0
PARTS: dict[str, Mapping[str, Callable[..., object]]] = {
    "sampler": WEIGHTS,
    "second_sampler": WEIGHTS,
    "loss": LOSSES,
    "objective": OBJECTIVES,
    "head_transform": HEAD_TRANSFORMS,
    "optimizer": OPTIMIZERS,
}


def check_parts(recipe: Recipe, name: str) -> None:
    """Every part that the recipe names exists, takes its options, and fits the others."""
    parse_spec(recipe.data.spec)
    check_backbone_of(recipe, name)
    check_augment(recipe.augment, name)
    if recipe.model.head not in HEADS:
        raise UsageError(f"{name}: model.head: {unknown('head', recipe.model.head, HEADS)}")
    for stage_name, kind in heads_in_turn(recipe, name):
        stage, where = recipe.stages[stage_name], f"{name}: {stage_name}"
        try_part(f"{where}.sampler", stage.sampler, WEIGHTS)
        if stage.second_sampler:
            try_part(f"{where}.second", stage.second_sampler, WEIGHTS)
        loss = try_part(f"{where}.loss", stage.loss, LOSSES)
        check_optimizer(where, stage)
        check_fit(f"{where}.loss", stage.loss.name, loss, cosine=HEADS[kind].cosine)
        objective = try_part(f"{where}.objective", stage.objective, objectives_with(loss))
        check_streams(where, stage, objective)
        check_model(where, stage, objective, kind, recipe.model.branches)


def check_augment(augment: Augment, name: str) -> None:
    """Crops are cut out in one of both ways."""
    if augment.crop_area and augment.crop_padding:
        raise UsageError(
            f"{name}: augment.crop_area and augment.crop_padding = {augment.crop_padding} are two ways to crop; set "
            "augment.crop_padding = 0, or leave out augment.crop_area"
        )
    if augment.crop_ratio and not augment.crop_area:
        raise UsageError(
            f"{name}: augment.crop_ratio is of random resized crops; set augment.crop_area, for example [0.08, 1.0]"
        )


def check_optimizer(where: str, stage: Stage) -> None:
    """The optimiser takes its options."""
    make = partial(OPTIMIZERS[stage.optimizer.name], stage, {}, torch.device("cpu"))
    heard(f"{where}.optimizer", partial(make, **stage.optimizer.options))


def check_backbone_of(recipe: Recipe, name: str) -> None:
    """The backbone exists."""
    try:
        check_backbone(recipe.model.backbone)
    except UsageError as error:
        raise UsageError(f"{name}: model.backbone: {error}") from None


def head_kinds(recipe: Recipe, name: str = "the recipe") -> dict[str, str]:
    """The name of the head that each stage trains: the model's own, as the stages change it one after the other."""
    return dict(heads_in_turn(recipe, name))


def heads_in_turn(recipe: Recipe, name: str) -> Iterator[tuple[str, str]]:
    """Stage and head one by one, so that what is wrong in a stage is told before what follows from it in the next."""
    kind = recipe.model.head
    for stage_name, stage in recipe.stages.items():
        change = try_part(f"{name}: {stage_name}.head_transform", stage.head_transform, HEAD_TRANSFORMS)
        try:
            kind = change.head_after(kind)
        except ValueError as error:
            raise UsageError(f"{name}: {stage_name}.head_transform: {error}") from None
        yield stage_name, kind


def objectives_with(loss: Loss) -> dict[str, Callable[..., Objective]]:
    """Every objective, its loss given."""
    return {name: partial(factory, loss) for name, factory in OBJECTIVES.items()}


def check_streams(where: str, stage: Stage, objective: Objective) -> None:
    """An objective that wants a second stream of batches has one, and no other has."""
    if objective.second and not stage.second_sampler:
        raise UsageError(f'{where}.objective = "{stage.objective.name}" needs a second sampler; set {where}.second')
    if stage.second_sampler and not objective.second:
        raise UsageError(f'{where}.second is of no use to {where}.objective = "{stage.objective.name}"; take it out')
    if stage.mixup and not objective.mixes:
        raise UsageError(f'{where}.objective = "{stage.objective.name}" cannot be mixed; set {where}.mixup = 0')


def check_model(where: str, stage: Stage, objective: Objective, head: str, branches: int) -> None:
    """An objective that wants a head or a backbone of a certain kind has it."""
    objective_is = f'{where}.objective = "{stage.objective.name}"'
    fitting = [name for name in HEADS if objective.needs is None or is_a(HEADS[name], objective.needs)]
    if head not in fitting:
        names = " or ".join(f'"{name}"' for name in fitting)
        raise UsageError(f'{objective_is} works with the head {names}, not with "{head}"')
    if objective.branches > branches:
        raise UsageError(f"{objective_is} needs a backbone of two branches; set model.branches = 2")


def is_a(factory: object, kind: type) -> bool:
    """Whether something that makes parts is a class of that kind; a plugin's may be a function."""
    return isinstance(factory, type) and issubclass(factory, kind)


def try_part(where: str, part: Part, known: Mapping[str, Callable[..., Built]]) -> Built:
    """Build a part once on made-up counts, to hear its own complaints before anything is loaded."""
    return heard(where, partial(known[part.name], np.array(TRIAL_COUNTS), **part.options))


def heard(where: str, make: Callable[[], Built]) -> Built:
    """What ``make`` makes, or its complaint as ours."""
    try:
        return make()
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def check_fit(where: str, name: str, loss: Loss, *, cosine: bool) -> None:
    """A loss on cosines needs a cosine head, and a cosine head needs a loss that stretches its outputs."""
    if loss.needs_cosine and not cosine:
        raise UsageError(f'{where} = "{name}" works on cosines; set model.head = "cosine"')
    if cosine and loss.scale < SMALLEST_SCALE:
        raise UsageError(
            f"{where}.scale = {loss.scale:g} cannot learn with a cosine head, whose outputs lie in [-1, 1]; "
            "set it to about 30"
        )


def complete(recipe: Recipe, name: str) -> Recipe:
    """The recipe with every option of its parts spelled out, and the backbone by its full name."""
    stages = {
        stage_name: stage.model_copy(
            update={
                field: complete_part(f"{name}: {stage_name}.{field}", part, PARTS[field])
                for field in PARTS
                if (part := getattr(stage, field))
            }
        )
        for stage_name, stage in recipe.stages.items()
    }
    model = recipe.model.model_copy(update={"backbone": branched(recipe.model.backbone, recipe.model.branches)})
    return recipe.model_copy(update={"model": model, **stages})


def completed(substance: dict[str, Any]) -> dict[str, Any]:
    """What decides a result, as it is written today: fields that it was written without have their defaults."""
    try:
        return complete(Recipe.model_validate(substance), "the recipe").substance()
    except (ValidationError, UsageError):
        return substance


def complete_part(where: str, part: Part, known: Mapping[str, Callable[..., object]]) -> Part:
    """The part with its defaults; its options must be those that its constructor takes by keyword, of that type."""
    if part.name not in known:
        raise UsageError(f"{where}: {unknown('part', part.name, known)}")
    schema = options_schema(known[part.name])
    try:
        options = schema.model_validate(part.options)
    except ValidationError as error:
        raise UsageError(f"{where}: {explain(error, schema)}") from None
    return Part(name=part.name, **options.model_dump())


def options_schema(factory: Callable[..., object]) -> type[BaseModel]:
    """The keyword-only parameters of a part as a schema."""
    fields: dict[str, Any] = {
        parameter.name: (parameter.annotation, parameter.default)
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return create_model("Options", __config__=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False), **fields)


def explain(error: ValidationError, schema: type[BaseModel]) -> str:
    """The first thing that is wrong, as a sentence that names the field, the value and what is allowed."""
    details = error.errors()
    first = details[0]
    path = [str(step) for step in first["loc"]]
    field, value = ".".join(path), first["input"]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    if first["type"] == "extra_forbidden":
        siblings = _siblings(schema, path)
        return f"{unknown('field', field, siblings)}{more}" if siblings else f"it has no options, so no {field}{more}"
    if first["type"] == "missing":
        return f"{field} is missing{more}"
    said = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
    wanted = re.sub("valid dictionary or instance of .*", "table", said)
    return f"{field} = {_shown(value)} {wanted}{more}"


def _siblings(schema: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The fields that could have stood where ``path`` points."""
    prefix = ""
    for step in path[:-1]:
        annotation = schema.model_fields[step].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        schema = next(o for o in options if inspect.isclass(o) and issubclass(o, BaseModel))
        prefix += f"{step}."
    return [prefix + name for name in schema.model_fields]


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
