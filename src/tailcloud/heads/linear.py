"""The linear head."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.base import Head


class LinearHead(Head):
    """z = W f + b: unbounded logits. Weights are initialised Kaiming-normal, like those of the backbone."""

    cosine = False

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, features))
        self.bias = nn.Parameter(torch.empty(classes))
        nn.init.kaiming_normal_(self.weight)
        bound = 1 / math.sqrt(features)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, features: Tensor) -> Tensor:
        """Logits [batch, classes] of features [batch, features]."""
        return F.linear(features, self.weight, self.bias)
