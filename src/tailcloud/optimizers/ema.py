"""An exponential moving average of weights: Σ_i d^(t−i)·w_i / Σ_i d^(t−i) over the weights after each update i ≤ t.

So the weights before the first update have no part in it, and short stages need no smaller d. Only what is trained has
an average; batch-norm statistics are those of the last update.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Average:
    """The average of parameters, by name; ``decay`` is d, so that about the last 1 / (1 − d) updates count."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self.parameters, self.decay = parameters, decay
        self.weights = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    def follow(self, count: Tensor) -> None:
        """Take in the weights after update number ``count``; they weigh (1 − d) / (1 − d^count)."""
        if self.weights:
            averages = list(self.weights.values())
            share = (1 - self.decay) / faded(self.decay, count)
            steps = torch._foreach_sub([self.parameters[name].detach() for name in self.weights], averages)
            torch._foreach_mul_(steps, share.to(averages[0].dtype))
            torch._foreach_add_(averages, steps)

    @torch.no_grad()
    def swap(self) -> None:
        """Weights and their average change places, each staying where it lies in memory."""
        for name, average in self.weights.items():
            before = self.parameters[name].detach().clone()
            self.parameters[name].copy_(average)
            average.copy_(before)


def faded(decay: float, count: Tensor) -> Tensor:
    """1 − d^count, without the digits that float32 would lose."""
    return -torch.expm1(count * math.log(decay)) if decay else torch.ones_like(count)
