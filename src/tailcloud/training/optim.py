"""The optimiser, and its state as plain named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD

from tailcloud.recipe import Stage

MOMENTUM = "momentum_buffer"
FACTOR = "factor"


def make_optimizer(stage: Stage, parameters: Mapping[str, nn.Parameter], device: torch.device) -> SGD:
    """SGD with momentum; weight decay on everything, batch norm and head included, as the published recipes have it.

    The learning rate is a tensor on the device, so that a captured step sees it change. Momentum starts as zeros, which
    is what the first step makes of none.
    """
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        groups.setdefault(factor_of(name, stage), []).append(parameter)
    optimizer = SGD(
        [
            {"params": members, "lr": _rate(factor * stage.lr, device), FACTOR: factor}
            for factor, members in groups.items()
        ],
        momentum=stage.momentum,
        weight_decay=stage.weight_decay,
        fused=device.type in {"cpu", "cuda"} or None,
    )
    for parameter in parameters.values():
        optimizer.state[parameter][MOMENTUM] = torch.zeros_like(parameter, requires_grad=False)
    return optimizer


def factor_of(name: str, stage: Stage) -> float:
    """The factor of a parameter's learning rate: that of the longest name in ``lr_factors`` it belongs to, else 1."""
    parts = [part for part in stage.lr_factors if f"{name}.".startswith(f"{part}.")]
    return stage.lr_factors[max(parts, key=len)] if parts else 1.0


def _rate(value: float, device: torch.device) -> float | Tensor:
    return torch.tensor(value, device=device) if device.type == "cuda" else value


def set_learning_rate(optimizer: SGD, value: float) -> None:
    """For all parameters, each times its factor."""
    for group in optimizer.param_groups:
        rate = group.get(FACTOR, 1.0) * value
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def momentum_of(optimizer: SGD, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The momentum of each parameter, by the parameter's name."""
    return {name: optimizer.state[parameter][MOMENTUM] for name, parameter in parameters.items()}


def restore_momentum(optimizer: SGD, parameters: Mapping[str, nn.Parameter], momentum: Mapping[str, Tensor]) -> None:
    """The inverse of ``momentum_of``."""
    for name, buffer in momentum.items():
        optimizer.state[parameters[name]][MOMENTUM].copy_(buffer)
