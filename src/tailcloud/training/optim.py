"""The optimiser, and its state as plain named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tailcloud.recipe import Stage

MOMENTUM = "momentum_buffer"


def make_optimizer(stage: Stage, parameters: Mapping[str, nn.Parameter], device: torch.device) -> SGD:
    """SGD with momentum; weight decay on everything, batch norm and head included, as the published recipes have it.

    The learning rate is a tensor on the device, so that a captured step sees it change. Momentum starts as zeros, which
    is what the first step makes of none.
    """
    cuda = device.type == "cuda"
    lr = torch.tensor(stage.lr, device=device) if cuda else stage.lr
    optimizer = SGD(
        parameters.values(),
        lr=lr,
        momentum=stage.momentum,
        weight_decay=stage.weight_decay,
        fused=device.type in {"cpu", "cuda"} or None,
    )
    for parameter in parameters.values():
        optimizer.state[parameter][MOMENTUM] = torch.zeros_like(parameter, requires_grad=False)
    return optimizer


def set_learning_rate(optimizer: SGD, value: float) -> None:
    """For all parameters."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def momentum_of(optimizer: SGD, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The momentum of each parameter, by the parameter's name."""
    return {name: optimizer.state[parameter][MOMENTUM] for name, parameter in parameters.items()}


def restore_momentum(optimizer: SGD, parameters: Mapping[str, nn.Parameter], momentum: Mapping[str, Tensor]) -> None:
    """The inverse of ``momentum_of``."""
    for name, buffer in momentum.items():
        optimizer.state[parameters[name]][MOMENTUM].copy_(buffer)
