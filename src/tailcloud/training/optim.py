"""The optimiser, and its state as plain named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tailcloud.recipe import Stage

MOMENTUM = "momentum_buffer"


def make_optimizer(stage: Stage, parameters: Mapping[str, nn.Parameter]) -> SGD:
    """SGD with momentum; weight decay on everything, batch norm and head included, as the published recipes have it."""
    return SGD(parameters.values(), lr=stage.lr, momentum=stage.momentum, weight_decay=stage.weight_decay)


def set_learning_rate(optimizer: SGD, value: float) -> None:
    """For all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = value


def momentum_of(optimizer: SGD, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The momentum of each parameter that has one, by the parameter's name."""
    buffers = {name: optimizer.state[parameter].get(MOMENTUM) for name, parameter in parameters.items()}
    return {name: buffer for name, buffer in buffers.items() if buffer is not None}


def restore_momentum(optimizer: SGD, parameters: Mapping[str, nn.Parameter], momentum: Mapping[str, Tensor]) -> None:
    """The inverse of ``momentum_of``."""
    for name, buffer in momentum.items():
        parameter = parameters[name]
        optimizer.state[parameter][MOMENTUM] = torch.empty_like(parameter, requires_grad=False).copy_(buffer)
