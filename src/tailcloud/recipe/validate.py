"""Validates a recipe: every part exists, accepts its options and fits the others."""

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tailcloud.backbones import BACKBONES, Backbone, branched, check_backbone, plain_name
from tailcloud.backbones.ensemble import ensemble_parts
from tailcloud.backbones.experts import experts_of, with_experts
from tailcloud.classifier import meta_backbone
from tailcloud.data import parse_spec
from tailcloud.errors import UsageError, unknown
from tailcloud.head_transforms import HEAD_TRANSFORMS
from tailcloud.heads import HEADS, inference_kind
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Objective
from tailcloud.optimizers import OPTIMIZERS
from tailcloud.recipe.schema import Distill, Model, PartSpec, Recipe, Stage
from tailcloud.sampling import WEIGHTS

DUMMY_COUNTS = [10, 1]
Built = TypeVar("Built")
SMALLEST_SCALE = 2.0
PARTS: dict[str, Mapping[str, Callable[..., object]]] = {
    "sampler": WEIGHTS,
    "second_sampler": WEIGHTS,
    "cutmix_sampler": WEIGHTS,
    "loss": LOSSES,
    "objective": OBJECTIVES,
    "head_transform": HEAD_TRANSFORMS,
    "optimizer": OPTIMIZERS,
}


def check_parts(recipe: Recipe, name: str) -> None:
    """Every part that the recipe names exists, accepts its options, and fits the others."""
    parse_spec(recipe.data.spec)
    check_backbone_of(recipe, name)
    check_drop_path(recipe, name)
    as_usage_error(name, recipe.augment.check)
    if recipe.view_augment:
        as_usage_error(name, partial(recipe.view_augment.check, "view_augment"))
    if recipe.model.head not in HEADS:
        raise UsageError(f"{name}: model.head: {unknown('head', recipe.model.head, HEADS)}")
    for stage_name, kind in iter_head_kinds(recipe, name):
        stage, where = recipe.stages[stage_name], f"{name}: {stage_name}"
        try_part(f"{where}.sampler", stage.sampler, WEIGHTS)
        if stage.second_sampler:
            try_part(f"{where}.second_sampler", stage.second_sampler, WEIGHTS)
        check_cutmix(where, stage)
        loss = try_part(f"{where}.loss", stage.loss, LOSSES)
        check_optimizer(where, stage)
        check_schedule(where, stage)
        check_fit(f"{where}.loss", stage.loss.name, loss, cosine=HEADS[kind].cosine)
        objective = try_part(f"{where}.objective", stage.objective, objectives_with(loss))
        check_batches(name, stage_name, stage, objective)
        check_model(where, stage, objective, kind, recipe.model)
        check_views(where, stage, objective)
        if distill := recipe.distillation(stage_name):
            check_distillation(name, distill, stage, objective)
    if recipe.view_augment and not compares_views(recipe):
        raise UsageError(
            f"{name}: [view_augment] is for objectives that compare views of an image, such as those of bcl and proco, "
            "and no stage has one; remove that table"
        )


def compares_views(recipe: Recipe) -> bool:
    """Whether an objective of the recipe needs further views of each image."""
    return any(getattr(OBJECTIVES[stage.objective.name], "views", 0) for stage in recipe.stages.values())


def check_optimizer(where: str, stage: Stage) -> None:
    """The optimiser accepts its options."""
    make = partial(OPTIMIZERS[stage.optimizer.name], stage, {}, torch.device("cpu"), ())
    as_usage_error(f"{where}.optimizer", partial(make, **stage.optimizer.options))


def check_schedule(where: str, stage: Stage) -> None:
    """A fraction of an epoch as warm-up, and a decay over layers, have an effect."""
    if stage.warmup % 1 and stage.lr_interval == "epoch":
        raise UsageError(
            f'{where}.warmup = {stage.warmup:g} is not a number of whole epochs; set lr_interval = "step" too'
        )
    if stage.layer_decay < 1 and all(part.startswith("head") for part in stage.parts):
        raise UsageError(
            f'{where}.layer_decay = {stage.layer_decay:g} has no effect with train = "{stage.train}"; set it to 1'
        )


def check_drop_path(recipe: Recipe, name: str) -> None:
    """The backbone has residual blocks that can be dropped."""
    model = recipe.model
    if not model.drop_path:
        return
    backbone = meta_backbone(model.backbone, model.width)
    if not isinstance(backbone, Backbone) or not backbone.residual_blocks():
        raise UsageError(
            f"{name}: model.drop_path = {model.drop_path:g} works with efficientnet_lite0, 1 and 2, not with "
            f'model.backbone = "{model.backbone}"; set it to 0'
        )


def check_backbone_of(recipe: Recipe, name: str) -> None:
    """The backbone exists, with as many branches and experts as there should be."""
    backbone, plain = recipe.model.backbone, plain_name(recipe.model.backbone)
    member, networks = ensemble_parts(backbone)
    if networks > 1:
        raise UsageError(
            f'{name}: model.backbone = "{backbone}" is an average of {networks} trained runs; set it to "{member}", '
            f'train {networks} seeds, and average them with "tailcloud average"'
        )
    if recipe.model.branches == 2 and recipe.model.experts > 1:
        raise UsageError(
            f"{name}: model.branches = 2 and model.experts = {recipe.model.experts} exclude each other; set one to 1"
        )
    if recipe.model.branches == 2 and backbone not in BACKBONES and plain in BACKBONES:
        raise UsageError(
            f'{name}: model.branches = 2 works with ResNets, not with model.backbone = "{plain}"; set it to one, such '
            'as "resnet32"'
        )
    try:
        check_backbone(recipe.model.backbone)
    except UsageError as error:
        raise UsageError(f"{name}: model.backbone: {error}") from None
    if (named := experts_of(backbone)) != recipe.model.experts:
        raise UsageError(
            f'{name}: model.backbone = "{backbone}" has {named} experts, and model.experts = {recipe.model.experts}; '
            f'set model.experts = {named}, or model.backbone = "{plain}"'
        )


def head_kinds(recipe: Recipe, name: str = "the recipe") -> dict[str, str]:
    """By stage, the name of the head that it trains: the model's head after the head transforms so far."""
    return dict(iter_head_kinds(recipe, name))


def iter_head_kinds(recipe: Recipe, name: str) -> Iterator[tuple[str, str]]:
    """Stage and head one by one, so that an error in a stage is reported before its consequences in the next one."""
    kind = recipe.model.head
    for number, (stage_name, stage) in enumerate(recipe.stages.items()):
        kind = inference_kind(kind) if number and kind in HEADS else kind
        transform = try_part(f"{name}: {stage_name}.head_transform", stage.head_transform, HEAD_TRANSFORMS)
        try:
            kind = transform.head_after(kind)
        except ValueError as error:
            raise UsageError(f"{name}: {stage_name}.head_transform: {error}") from None
        yield stage_name, kind


def objectives_with(loss: Loss) -> dict[str, Callable[..., Objective]]:
    """Every objective, with its loss given, for features of any length."""
    return {name: partial(factory, loss, features=1) for name, factory in OBJECTIVES.items()}


def check_batches(name: str, stage_name: str, stage: Stage, objective: Objective) -> None:
    """An objective that needs a second sampler has one, no other has, and mixing is supported where it is set."""
    objective_is = f'{stage_name}.objective = "{stage.objective.name}"'
    if objective.second and not stage.second_sampler:
        raise UsageError(f"{name}: {objective_is} needs a second sampler; set {stage_name}.second_sampler")
    if stage.second_sampler and not objective.second:
        raise UsageError(f"{name}: {objective_is} does not use {stage_name}.second_sampler; remove it")
    for mixing in ("mixup", "cutmix"):
        if getattr(stage, mixing) and not objective.mixes:
            raise UsageError(f"{name}: {objective_is} does not support {mixing}; set {stage_name}.{mixing} = 0")


def check_cutmix(where: str, stage: Stage) -> None:
    """What CutMix pastes, and how often, goes with CutMix, and leaves mixup an effect."""
    if stage.cutmix_sampler:
        try_part(f"{where}.cutmix_sampler", stage.cutmix_sampler, WEIGHTS)
    sampler = f'"{stage.cutmix_sampler.name}"' if stage.cutmix_sampler else None
    for option, value in {"cutmix_sampler": sampler, "cutmix_probability": stage.cutmix_probability}.items():
        if value and not stage.cutmix:
            raise UsageError(f"{where}.{option} = {value} has no effect without CutMix; set cutmix = 1.0, or remove it")
    if sampler and stage.mixup:
        raise UsageError(
            f"{where}.cutmix_sampler = {sampler} draws partners for CutMix alone, and mixup = {stage.mixup:g} needs "
            "those of the same batch; set mixup = 0, or remove cutmix_sampler"
        )
    if stage.cutmix_probability == 1 and stage.mixup:
        raise UsageError(
            f"{where}.mixup = {stage.mixup:g} has no effect with cutmix_probability = 1; set mixup = 0, or a smaller "
            "probability"
        )


def check_model(where: str, stage: Stage, objective: Objective, head: str, model: Model) -> None:
    """An objective that needs a certain kind of head or backbone has it."""
    objective_is = f'{where}.objective = "{stage.objective.name}"'
    suitable = heads_for(objective)
    if head not in suitable:
        names = " or ".join(f'"{name}"' for name in suitable)
        raise UsageError(f'{objective_is} works with the head {names}, not with "{head}"')
    if objective.branches > model.branches:
        raise UsageError(f"{objective_is} needs a backbone of two branches; set model.branches = 2")
    if objective.experts not in {1, model.experts}:
        raise UsageError(
            f"{objective_is} has {objective.experts} taus, and model.experts = {model.experts}; set model.experts = "
            f"{objective.experts}, or one tau for each expert"
        )
    if model.experts > 1 and not objective.expert_heads:
        raise UsageError(f"{objective_is} does not work with model.experts = {model.experts}; set it to 1")


def heads_for(objective: Objective) -> list[str]:
    """The names of the heads that an objective works with."""
    return [name for name in HEADS if objective.needs is None or is_a(HEADS[name], objective.needs)]


def check_views(where: str, stage: Stage, objective: Objective) -> None:
    """A stage on features trains only the head, with an objective that takes one batch of features."""
    if not stage.views:
        return
    if not stage.trains_only_head:
        raise UsageError(
            f'{where}.views = {stage.views} takes features of a frozen backbone, and train = "{stage.train}" trains '
            'it; set train = "head", or views = 0'
        )
    if stage.cutmix:
        raise UsageError(
            f"{where}.views = {stage.views} takes features instead of images, and cutmix = {stage.cutmix:g} needs "
            "images; set cutmix = 0, or views = 0"
        )
    if stage.epochs and (objective.views or objective.second or objective.branches > 1):
        raise UsageError(
            f"{where}.views = {stage.views} takes features instead of images, and "
            f'objective = "{stage.objective.name}" needs images; set views = 0'
        )


def check_distillation(name: str, distill: Distill, stage: Stage, objective: Objective) -> None:
    """The first stage trains on images, with an objective whose outputs can be compared with those of teachers."""
    if not stage.epochs or stage.views:
        field = "epochs" if not stage.epochs else "views"
        raise UsageError(
            f"{name}: [distill] needs a first stage that trains on images, and stage1.{field} = "
            f"{getattr(stage, field)}; change it, or leave out the teachers"
        )
    if not objective.distills or type(objective).forward is not Objective.forward:  # forward would not be called
        able = " or ".join(f'"{known}"' for known, made in OBJECTIVES.items() if getattr(made, "distills", False))
        raise UsageError(
            f'{name}: [distill] works with stage1.objective = {able}, not with "{stage.objective.name}"; change it, or '
            "leave out the teachers"
        )
    if len(distill.sha256) not in {0, len(distill.teachers)}:
        raise UsageError(
            f"{name}: distill.sha256 has {len(distill.sha256)} digests for {len(distill.teachers)} teachers; "
            "leave it out"
        )


def is_a(factory: object, kind: type) -> bool:
    """Whether a factory is a class of that kind; a plugin's factory may be a function."""
    return isinstance(factory, type) and issubclass(factory, kind)


def try_part(where: str, part: PartSpec, known: Mapping[str, Callable[..., Built]]) -> Built:
    """Build a part once with dummy class counts, so that its own errors come before anything is loaded."""
    return as_usage_error(where, partial(known[part.name], np.array(DUMMY_COUNTS), **part.options))


def as_usage_error(where: str, make: Callable[[], Built]) -> Built:
    """Call ``make``; its ValueError becomes a UsageError that says where."""
    try:
        return make()
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def check_fit(where: str, name: str, loss: Loss, *, cosine: bool) -> None:
    """A loss on cosines needs a cosine head, and a cosine head needs a loss with a large enough scale."""
    if loss.needs_cosine and not cosine:
        raise UsageError(f'{where} = "{name}" works on cosines; set model.head = "cosine"')
    if cosine and loss.scale < SMALLEST_SCALE:
        raise UsageError(
            f"{where}.scale = {loss.scale:g} is too small for a cosine head, whose outputs are in [-1, 1]; "
            "set it to about 30"
        )


def complete(recipe: Recipe, name: str) -> Recipe:
    """The recipe with all options of its parts filled in, and the full name of its backbone."""
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
    backbone = with_experts(branched(recipe.model.backbone, recipe.model.branches), recipe.model.experts)
    model = recipe.model.model_copy(update={"backbone": backbone})
    return recipe.model_copy(update={"model": model, **stages})


def completed(substance: dict[str, Any]) -> dict[str, Any]:
    """The ``substance`` of a recipe as this version writes it: missing fields have their defaults."""
    try:
        return complete(Recipe.model_validate(substance), "the recipe").substance()
    except (ValidationError, UsageError):
        return substance


def complete_part(where: str, part: PartSpec, known: Mapping[str, Callable[..., object]]) -> PartSpec:
    """The part with its default options filled in; options are the keyword-only parameters of its constructor."""
    if part.name not in known:
        raise UsageError(f"{where}: {unknown('part', part.name, known)}")
    schema = options_schema(known[part.name])
    try:
        options = schema.model_validate(part.options)
    except ValidationError as error:
        raise UsageError(f"{where}: {explain(error, schema)}") from None
    return PartSpec(name=part.name, **options.model_dump())


def options_schema(factory: Callable[..., object]) -> type[BaseModel]:
    """The keyword-only parameters of a part as a schema."""
    return _known_schema(factory) if isinstance(factory, Hashable) else _new_schema(factory)


def _new_schema(factory: Callable[..., object]) -> type[BaseModel]:
    fields: dict[str, Any] = {
        parameter.name: (parameter.annotation, parameter.default)
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return create_model("Options", __config__=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False), **fields)


_known_schema = cache(_new_schema)  # a schema takes longer to make than all else in a recipe


def explain(error: ValidationError, schema: type[BaseModel]) -> str:
    """The first error, as a sentence that names the field, the value and what is allowed."""
    details = error.errors()
    first = details[0]
    path = [str(step) for step in first["loc"]]
    field, value = ".".join(path), first["input"]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    if first["type"] == "extra_forbidden":
        siblings = _siblings(schema, path)
        return (
            f"{unknown('field', field, siblings)}{more}" if siblings else f"it has no options, and {field} is set{more}"
        )
    if first["type"] == "missing":
        return f"{field} is missing{more}"
    message = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
    expected = re.sub("valid dictionary or instance of .*", "table", message)
    return f"{field} = {_shown(value)} {expected}{more}"


def _siblings(schema: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The allowed fields where ``path`` points."""
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
