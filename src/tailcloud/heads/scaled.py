"""A head with scaled and shifted outputs: for LWS, MisLAS, and logit adjustment after training."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from tailcloud.heads.base import Head
from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.linear import LinearHead


class ScaledHead(Head):
    """s_j · z_j + t_j for the outputs z of a linear or cosine head; starts with s = 1 and t = 0.

    ``inner`` is that head, ``scale`` [classes] a parameter, and ``shift`` [classes] a buffer, which no stage trains.
    """

    kind: ClassVar[type[Head]]
    shift: Tensor

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.inner = self.kind(features, classes)
        self.scale = nn.Parameter(torch.ones(classes))
        self.register_buffer("shift", torch.zeros(classes))

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [batch, classes] of features [batch, features]."""
        outputs: Tensor = self.inner(features)
        return self.scale * outputs + self.shift


class ScaledLinearHead(ScaledHead):
    """A linear head, scaled; its bias is scaled too."""

    cosine = False
    kind = LinearHead


class ScaledCosineHead(ScaledHead):
    """A cosine head, scaled."""

    cosine = True
    kind = CosineHead
