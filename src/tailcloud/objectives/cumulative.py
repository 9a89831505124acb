"""Cumulative learning (BBN; Zhou et al., CVPR 2020): a gradual change from the first to the second sampler."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.losses import Loss
from tailcloud.objectives.base import Objective


class CumulativeObjective(Objective):
    """Weight α = 1 − t² for the first sampler and 1 − α for the second; t is the share of the stage that is done."""

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
