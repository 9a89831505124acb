"""Softmax equalization loss (Tan et al., CVPR 2020).

L = −log ( e^z_y / Σ_k w_k · e^z_k ),   w_k = 1 − β · [n_k / N < λ] · [k ≠ y],   β ~ Bernoulli(γ)
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, within
from tailcloud.losses.memory_efficient_ce import cross_entropy
from tailcloud.profile import at_least_one


class EqualizationLoss(Loss):
    """Cross-entropy in which images of other classes mostly do not push rare classes down.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
        threshold: λ; a class is rare if its share of the images is smaller.
        probability: γ, how often a rare class is left out of the softmax of another class's image. Drawn for every
            (sample, class) entry.
    """

    balances: ClassVar[bool] = True
    per_image = True
    rare: Tensor

    def __init__(
        self, counts: Sequence[int], *, scale: float = 1.0, threshold: float = 0.005, probability: float = 0.95
    ) -> None:
        super().__init__(scale)
        self.probability = within("probability", probability, 0, 1)
        n = at_least_one(counts)
        rare = torch.from_numpy(n < within("threshold", threshold, 0, 1) * n.sum())
        self.register_buffer("rare", rare, persistent=False)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; draws its own β unless ``epsilon`` is given."""
        if epsilon is None:
            epsilon = self.draw(len(output), output.device)
        ignored = (self.rare & (epsilon < self.probability)).scatter(1, target[:, None], value=False)
        logits = self.logits(at_least_float32(output)).masked_fill(ignored, float("-inf"))
        return batch_mean(cross_entropy(logits, target))

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
        """Uniform numbers in [0, 1) of shape [rows, classes]; β = 1 where one is below γ."""
        return torch.rand(rows, len(self.rare), device=device, generator=generator)
