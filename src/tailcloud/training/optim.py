"""The optimiser: SGD with momentum, its state as plain named tensors.

v ← μ·v + g + λ·w,   w ← w − η·v

PyTorch's own would do, but making one imports its compiler: seconds of every start, and most of that of a short run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tailcloud.recipe import Stage

IN_ONE_KERNEL = {"cpu", "cuda"}


@dataclass
class Group:
    """Parameters that have one learning rate."""

    names: list[str]
    factor: float
    rate: float | Tensor


class SGD:
    """Weight decay on everything, batch norm and head included, as the published recipes have it.

    The learning rate is a tensor on a CUDA device, so that a captured step sees it change. Momentum starts as zeros,
    which is what the first step makes of none. A parameter without a gradient stays as it is.
    """

    def __init__(self, stage: Stage, parameters: Mapping[str, nn.Parameter], device: torch.device) -> None:
        self.parameters, self.device = dict(parameters), device
        self.inertia, self.weight_decay = stage.momentum, stage.weight_decay
        self.momentum = {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
        groups: dict[float, list[str]] = {}
        for name in parameters:
            groups.setdefault(factor_of(name, stage), []).append(name)
        self.groups = [
            Group(names, factor, torch.tensor(factor * stage.lr, device=device) if device.type == "cuda" else 0.0)
            for factor, names in groups.items()
        ]
        self.set_rate(stage.lr)

    def set_rate(self, value: float) -> None:
        """The learning rate of all parameters, each times its factor."""
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(group.factor * value)
            else:
                group.rate = group.factor * value

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update of everything that has a gradient."""
        for group in self.groups:
            moving = [name for name in group.names if self.parameters[name].grad is not None]
            if self.device.type in IN_ONE_KERNEL and moving:
                self._step_in_one_kernel(moving, group.rate)
            else:
                self._step_one_by_one(moving, group.rate)

    def _step_in_one_kernel(self, names: list[str], rate: float | Tensor) -> None:
        weights: list[Tensor] = [self.parameters[name] for name in names]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        torch._fused_sgd_(
            weights, gradients, [self.momentum[name] for name in names],
            weight_decay=self.weight_decay, momentum=self.inertia, lr=rate,
            dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
        )  # fmt: skip

    def _step_one_by_one(self, names: list[str], rate: float | Tensor) -> None:
        for name in names:
            weight, momentum = self.parameters[name], self.momentum[name]
            assert weight.grad is not None
            momentum.mul_(self.inertia).add_(weight.grad).add_(weight, alpha=self.weight_decay)
            weight.sub_(rate * momentum)


def factor_of(name: str, stage: Stage) -> float:
    """The factor of a parameter's learning rate: that of the longest name in ``lr_factors`` it belongs to, else 1."""
    parts = [part for part in stage.lr_factors if f"{name}.".startswith(f"{part}.")]
    return stage.lr_factors[max(parts, key=len)] if parts else 1.0
