"""Classifier heads: features in, one output per class out."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class LinearHead(nn.Linear):
    """z = W f + b: unbounded logits. Weights start Kaiming-normal like the backbone's."""

    cosine = False

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)

    def reset_parameters(self) -> None:
        """Fresh weights, from PyTorch's global generator."""
        nn.init.kaiming_normal_(self.weight)
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.bias, -bound, bound)


class CosineHead(nn.Module):
    """cos θ_j between the feature and each class anchor w_j, in [−1, 1]; the scale belongs to the loss."""

    cosine = True

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fresh anchors of length 1, from PyTorch's global generator."""
        with torch.no_grad():
            self.weight.uniform_(-1, 1)
            self.weight.copy_(F.normalize(self.weight, dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Cosines [batch, classes] of features [batch, features]; a feature of length 0 has cosine 0 with all."""
        return F.linear(F.normalize(features, dim=1), F.normalize(self.weight, dim=1))


Head = LinearHead | CosineHead

HEADS: dict[str, type[Head]] = {"linear": LinearHead, "cosine": CosineHead}
