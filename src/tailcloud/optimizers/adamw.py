"""Adam with decoupled weight decay (Loshchilov & Hutter, ICLR 2019).

w ← w − η·λ·w
m ← β₁·m + (1 − β₁)·g,   v ← β₂·v + (1 − β₂)·g²
w ← w − η · m / (1 − β₁^t) / (√(v / (1 − β₂^t)) + ε)
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from tailcloud.optimizers.base import Layers, Optimizer, UpdateSettings
from tailcloud.optimizers.ema import bias_correction


class AdamW(Optimizer):
    """Learning rate η (about 0.001 for Adam) and weight decay λ are settings of the stage.

    Args:
        beta1: β₁, the decay of the mean gradient m.
        beta2: β₂, the decay of the mean squared gradient v.
        epsilon: ε, added to the divisor.
    """

    buffer_names: ClassVar[tuple[str, ...]] = ("mean", "square")
    counts: ClassVar[bool] = True

    def __init__(
        self,
        settings: UpdateSettings,
        parameters: Mapping[str, nn.Parameter],
        device: torch.device,
        layers: Layers = (),
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        for name, value in {"beta1": beta1, "beta2": beta2}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name} = {value:g} must be at least 0 and less than 1")
        if epsilon <= 0:
            raise ValueError(f"epsilon = {epsilon:g} must be greater than 0")
        super().__init__(settings, parameters, device, layers)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def update_fused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """Update these parameters, which all have gradients, with PyTorch's fused kernel."""
        weights, gradients = self.weights_and_gradients(names)
        torch._fused_adamw_(
            weights, gradients, self.of("mean", names), self.of("square", names), [], [self.count] * len(names),
            lr=rate, beta1=self.beta1, beta2=self.beta2, weight_decay=decay, eps=self.epsilon,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def update_unfused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """The same without a fused kernel."""
        first, second = bias_correction(self.beta1, self.count), bias_correction(self.beta2, self.count)
        for name in names:
            weight, mean, square = self.parameters[name], self.buffers["mean"][name], self.buffers["square"][name]
            assert weight.grad is not None
            weight.sub_(rate * decay * weight)
            mean.mul_(self.beta1).add_(weight.grad, alpha=1 - self.beta1)
            square.mul_(self.beta2).addcmul_(weight.grad, weight.grad, value=1 - self.beta2)
            weight.sub_(rate * (mean / first) / ((square / second).sqrt() + self.epsilon))
