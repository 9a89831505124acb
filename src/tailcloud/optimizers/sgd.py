"""Stochastic gradient descent with momentum.

v ← μ·v + g + λ·w,   w ← w − η·v;   with Nesterov momentum w ← w − η·(g + λ·w + μ·v)
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from tailcloud.optimizers.base import Layers, Optimizer, UpdateSettings


class SGD(Optimizer):
    """Momentum μ and weight decay λ are settings of the stage. The momentum buffer v starts at zero.

    Args:
        nesterov: Nesterov momentum, in the form of PyTorch (Sutskever et al., ICML 2013).
    """

    buffer_names: ClassVar[tuple[str, ...]] = ("momentum",)

    def __init__(
        self,
        settings: UpdateSettings,
        parameters: Mapping[str, nn.Parameter],
        device: torch.device,
        layers: Layers = (),
        *,
        nesterov: bool = False,
    ) -> None:
        if nesterov and not settings.momentum:
            raise ValueError("nesterov = true needs a momentum greater than 0; set momentum, or nesterov = false")
        super().__init__(settings, parameters, device, layers)
        self.momentum, self.nesterov = settings.momentum, nesterov

    def update_fused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """Update these parameters, which all have gradients, with PyTorch's fused kernel."""
        weights, gradients = self.weights_and_gradients(names)
        torch._fused_sgd_(
            weights, gradients, self.of("momentum", names),
            weight_decay=decay, momentum=self.momentum, lr=rate,
            dampening=0.0, nesterov=self.nesterov, maximize=False, is_first_step=False,
        )  # fmt: skip

    def update_unfused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """The same without a fused kernel."""
        for name in names:
            weight, momentum = self.parameters[name], self.buffers["momentum"][name]
            assert weight.grad is not None
            momentum.mul_(self.momentum).add_(weight.grad).add_(weight, alpha=decay)
            step = momentum
            if self.nesterov:
                step = weight.grad.add(weight, alpha=decay).add_(momentum, alpha=self.momentum)
            weight.sub_(rate * step)
