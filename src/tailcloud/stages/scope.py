"""Which parts of a model a stage may change."""

from torch import nn

from tailcloud.classifier import Classifier
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage


def set_trainable(model: Classifier, stage: Stage) -> dict[str, nn.Parameter]:
    """Freeze what the stage does not train; the parameters that it does, by name."""
    trained = {}
    for name, parameter in model.named_parameters():
        moves = stage.train == "all" or f"{name}.".startswith(f"{stage.train}.")
        parameter.requires_grad_(moves)
        if moves:
            trained[name] = parameter
    if not trained and stage.epochs:
        parts = ", ".join(name for name, _ in model.head.named_parameters(prefix="head"))
        raise UsageError(f'train = "{stage.train}" names no part of this model; its head has {parts}')
    return trained


def set_modes(model: Classifier, stage: Stage) -> None:
    """Training mode; frozen batch-norm statistics are used as they are and not updated."""
    model.train()
    model.backbone.train(stage.batch_norm == "moving")
