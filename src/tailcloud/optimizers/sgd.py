"""Stochastic gradient descent with momentum.

v ← μ·v + g + λ·w,   w ← w − η·v
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from tailcloud.optimizers.base import Optimizer, Pace


class SGD(Optimizer):
    """Momentum μ and weight decay λ are the stage's. Momentum is zero before the first update."""

    memories: ClassVar[tuple[str, ...]] = ("momentum",)

    def __init__(self, pace: Pace, parameters: Mapping[str, nn.Parameter], device: torch.device) -> None:
        super().__init__(pace, parameters, device)
        self.inertia = pace.momentum

    def update_in_one_kernel(self, names: list[str], rate: float | Tensor) -> None:
        """The update of these parameters, which all have gradients."""
        weights, gradients = self.weights_and_gradients(names)
        torch._fused_sgd_(
            weights, gradients, self.of("momentum", names),
            weight_decay=self.weight_decay, momentum=self.inertia, lr=rate,
            dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
        )  # fmt: skip

    def update_one_by_one(self, names: list[str], rate: float | Tensor) -> None:
        """The same where there is no such kernel."""
        for name in names:
            weight, momentum = self.parameters[name], self.memory["momentum"][name]
            assert weight.grad is not None
            momentum.mul_(self.inertia).add_(weight.grad).add_(weight, alpha=self.weight_decay)
            weight.sub_(rate * momentum)
