"""An exponential moving average of weights: Σ_i d^(t−i)·w_i / Σ_i d^(t−i) over the weights after each update i ≤ t.

The weights before the first update are not included. In a stage of far fewer than 1 / (1 − d) updates this is the plain
mean of the weights after all of them. Only trained parameters are averaged; batch-norm statistics are not: they are
those of the last update, so the averaged weights should not lie far from the last ones.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class WeightAverage:
    """The EMA of parameters, by name; ``decay`` is d: about the last 1 / (1 − d) updates count."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.parameters, self.decay = parameters, decay
        self.weights = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    def update(self, count: Tensor) -> None:
        """Include the weights after update number ``count``, with the weight (1 − d) / (1 − d^count)."""
        if self.weights:
            averages = list(self.weights.values())
            share = (1 - self.decay) / bias_correction(self.decay, count)
            steps = torch._foreach_sub([self.parameters[name].detach() for name in self.weights], averages)
            torch._foreach_mul_(steps, share.to(averages[0].dtype))
            torch._foreach_add_(averages, steps)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the values of weights and average in place."""
        for name, average in self.weights.items():
            before = self.parameters[name].detach().clone()
            self.parameters[name].copy_(average)
            average.copy_(before)


def bias_correction(decay: float, count: Tensor) -> Tensor:
    """1 − d^count, accurate in float32."""
    return -torch.expm1(count * math.log(decay)) if decay else torch.ones_like(count)
