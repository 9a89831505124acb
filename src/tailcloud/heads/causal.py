"""The head of De-confound-TDE (Tang et al., NeurIPS 2020): normalised; can subtract a drift direction from features."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.base import Head

PARTS = 2  # K
SOFTENING = 1 / 32  # γ
MOMENTUM = 0.9  # μ


class CausalHead(Head):
    """(1/K) · Σ_k w_j^k · g(f^k) / (‖w_j^k‖ + γ), for features and weights cut into K = 2 parts; γ = 1/32.

    g(f^k) = f̂^k = f^k / ‖f^k‖ in training: each part has length 1. In evaluation it is f̂^k − α · cos(f^k, c^k) · ĉ^k:
    α times the component along c, the drift direction of training, is subtracted (total direct effect). In training c
    is updated in place: c ← μ·c + the mean feature of the batch, μ = 0.9. The buffer ``mean`` [features] is c. The
    buffer ``alpha`` is α, initially 0, which subtracts nothing. The scale τ belongs to the loss.
    """

    cosine = True
    mean: Tensor
    alpha: Tensor

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        bound = 1 / math.sqrt(features)
        nn.init.uniform_(self.weight, -bound, bound)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("alpha", torch.zeros(()))

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [batch, classes] in (−1, 1); 0 for a feature of length 0."""
        if self.training:
            self.update_drift(features.detach())
        directions = [F.normalize(part, dim=1) for part in features.tensor_split(PARTS, dim=1)]
        if not self.training:
            directions = self.without_drift(directions)
        anchors = [part / (part.norm(dim=1, keepdim=True) + SOFTENING) for part in self.weight.tensor_split(PARTS, 1)]
        return F.linear(torch.cat(directions, dim=1), torch.cat(anchors, dim=1)) / PARTS

    def update_drift(self, features: Tensor) -> None:
        """c ← μ·c + the mean of a batch, in place; an empty batch adds nothing."""
        self.mean.mul_(MOMENTUM).add_(features.to(self.mean).sum(dim=0) / max(len(features), 1))

    def without_drift(self, directions: list[Tensor]) -> list[Tensor]:
        """f̂^k − α · cos(f^k, c^k) · ĉ^k for each part."""
        drifts = [F.normalize(part, dim=0) for part in self.mean.tensor_split(PARTS)]
        return [
            direction - self.alpha * (direction * drift).sum(dim=1, keepdim=True) * drift
            for direction, drift in zip(directions, drifts, strict=True)
        ]
