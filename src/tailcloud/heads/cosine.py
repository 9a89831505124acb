"""The cosine head of GCL and LDAM."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.base import Head


class CosineHead(Head):
    """cos θ_j between the feature and each class weight w_j, in [−1, 1]; the scale belongs to the loss."""

    cosine = True

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        with torch.no_grad():
            self.weight.uniform_(-1, 1)
            self.weight.copy_(F.normalize(self.weight, dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Cosines [batch, classes] of features [batch, features]; 0 for a feature of length 0."""
        return F.linear(F.normalize(features, dim=1), F.normalize(self.weight, dim=1))
