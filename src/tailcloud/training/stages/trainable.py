"""Which parts of a model a stage trains."""

from collections.abc import Sequence

from torch import nn

from tailcloud.classifier import Classifier
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage


def set_trainable(model: Classifier, stage: Stage) -> dict[str, nn.Parameter]:
    """Freeze what the stage does not train; returns the trained parameters by name."""
    trained = {}
    for name, parameter in model.named_parameters():
        is_trained = stage.train == "all" or within(name, stage.parts)
        parameter.requires_grad_(is_trained)
        if is_trained:
            trained[name] = parameter
    if not trained and stage.epochs:
        parts = ", ".join(name for name, _ in model.head.named_parameters(prefix="head"))
        raise UsageError(f'train = "{stage.train}" is not a part of this model; its head has {parts}')
    return trained


def set_modes(model: Classifier, stage: Stage) -> None:
    """Training mode; frozen batch-norm statistics are used and not updated.

    If a stage trains parts of the backbone, the statistics of its other parts are frozen; all of them if it trains on
    features.
    """
    model.train()
    model.backbone.train(stage.batch_norm == "moving" and not stage.backbone_parts and not stage.views)
    if stage.batch_norm == "moving" and stage.backbone_parts:
        for name, module in model.named_modules():
            if within(name, stage.backbone_parts):
                module.train()


def within(name: str, parts: Sequence[str]) -> bool:
    """Whether a module or parameter of a model is one of these parts or inside one."""
    return any(f"{name}.".startswith(f"{part}.") for part in parts)
