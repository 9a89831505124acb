"""Cumulative learning (BBN; Zhou et al., CVPR 2020): first the data as they are, little by little the balanced ones."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.losses import Loss
from tailcloud.objectives.base import Objective


class CumulativeObjective(Objective):
    """α = 1 − t² weighs the first stream and 1 − α the second, t the share of the stage's epochs that are done."""

    second: ClassVar[bool] = True
    mixes: ClassVar[bool] = False
    alpha: Tensor

    def __init__(self, loss: Loss, counts: Sequence[int] = (), features: int = 1) -> None:
        super().__init__(loss, counts, features)
        self.register_buffer("alpha", torch.ones(()), persistent=False)

    def advance(self, share: float) -> None:
        """α falls from 1 towards 0."""
        super().advance(share)
        self.alpha.fill_(1 - share**2)
