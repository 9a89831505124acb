"""The aligned head of DisAlign (Zhang et al., CVPR 2021)."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tailcloud.heads.base import Head
from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.linear import LinearHead

CONFIDENCE_START = 0.1


class Alignment(nn.Module):
    """ẑ_j = (1 + σ·α_j)·z_j + σ·β_j with the confidence σ = sigmoid(vᵀf + c) of each image.

    Starts with α = 1, β = 0, every entry of v at 0.1, and c = 0.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(classes))
        self.beta = nn.Parameter(torch.zeros(classes))
        self.confidence = nn.Linear(features, 1)
        nn.init.constant_(self.confidence.weight, CONFIDENCE_START)
        nn.init.zeros_(self.confidence.bias)

    def forward(self, features: Tensor, outputs: Tensor) -> Tensor:
        """Aligned outputs [batch, classes]."""
        sigma: Tensor = self.confidence(features).sigmoid()
        return (1 + sigma * self.alpha) * outputs + sigma * self.beta


class AlignedHead(Head):
    """A linear or cosine head (``inner``) and the alignment of its outputs (``align``)."""

    kind: ClassVar[type[Head]]

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.inner = self.kind(features, classes)
        self.align = Alignment(features, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [batch, classes] of features [batch, features]."""
        outputs: Tensor = self.align(features, self.inner(features))
        return outputs


class AlignedLinearHead(AlignedHead):
    """A linear head, aligned."""

    cosine = False
    kind = LinearHead


class AlignedCosineHead(AlignedHead):
    """A cosine head, aligned; its confidence uses the features before normalisation."""

    cosine = True
    kind = CosineHead
