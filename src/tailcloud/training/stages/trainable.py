"""Which parts of a model a stage trains."""

from collections.abc import Sequence

from torch import nn

from tailcloud.backbones import Backbone
from tailcloud.backbones.adapters import adapter_names
from tailcloud.classifier import Classifier
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage
from tailcloud.recipe.schema import ADAPTERS


def set_trainable(model: Classifier, stage: Stage) -> dict[str, nn.Parameter]:
    """Freeze what the stage does not train; returns the trained parameters by name."""
    trained, parts = {}, with_adapters(model, stage.parts)
    for name, parameter in model.named_parameters():
        is_trained = stage.train == "all" or within(name, parts)
        parameter.requires_grad_(is_trained)
        if is_trained:
            trained[name] = parameter
    if not trained and stage.epochs:
        head = ", ".join(name for name, _ in model.head.named_parameters(prefix="head"))
        raise UsageError(f'train = "{stage.train}" is not a part of this model; its head has {head}')
    return trained


def set_modes(model: Classifier, stage: Stage) -> None:
    """Training mode; frozen batch-norm statistics are used and not updated.

    If a stage trains parts of the backbone, such as adapters, its other parts stay in evaluation mode; all of it if the
    stage trains on features.
    """
    model.train()
    model.backbone.train(stage.batch_norm == "moving" and not stage.backbone_parts and not stage.views)
    if stage.batch_norm == "moving" and stage.backbone_parts:
        parts = with_adapters(model, stage.backbone_parts)
        for name, module in model.named_modules():
            if within(name, parts):
                module.train()


def frozen_layers(model: Classifier, stage: Stage) -> int:
    """How many layers of the backbone, from the images on, the stage leaves as they are, weights and statistics.

    0 for a backbone that is not computed layer by layer. ``set_trainable`` has to come first.
    """
    backbone = model.backbone
    if not (isinstance(backbone, Backbone) and vars(type(backbone)).get("sequential")):
        return 0
    if stage.batch_norm == "moving" and not stage.backbone_parts:
        return 0
    trained = [name for name, parameter in backbone.named_parameters() if parameter.requires_grad]
    layers = backbone.layers()
    return next(
        (number for number, parts in enumerate(layers) if any(within(name, parts) for name in trained)), len(layers)
    )


def with_adapters(model: Classifier, parts: Sequence[str]) -> list[str]:
    """The parts by their names in the model: "adapters" stands for every adapter."""
    return [name for part in parts for name in (adapter_names(model) if part == ADAPTERS else [part])]


def within(name: str, parts: Sequence[str]) -> bool:
    """Whether a module or parameter of a model is one of these parts or inside one."""
    return any(f"{name}.".startswith(f"{part}.") for part in parts)
