"""Which parts of a model a stage may change."""

from torch import nn

from tailcloud.classifier import Classifier, refresh_head
from tailcloud.recipe import Stage


def open_stage(model: Classifier, stage: Stage, seed: int) -> None:
    """Before the first step of a stage: a fresh head where the stage asks for one."""
    if stage.head == "fresh":
        refresh_head(model, seed)


def set_trainable(model: Classifier, stage: Stage) -> dict[str, nn.Parameter]:
    """Freeze what the stage does not train; the parameters that it does, by name."""
    model.backbone.requires_grad_(stage.train == "all")
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def set_modes(model: Classifier, stage: Stage) -> None:
    """Training mode; frozen batch-norm statistics are used as they are and not updated."""
    model.train()
    model.backbone.train(stage.batch_norm == "moving")
