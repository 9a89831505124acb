"""The nearest class mean (NCM; Kang et al., ICLR 2020): nothing is trained."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.heads.base import Head


class NearestMeanHead(Head):
    """−‖g(f) − m_j‖² for the mean m_j of each class, where g takes ``centre`` off and may normalise.

    All of it is buffers: ``means`` [classes, features], in the space of g; ``centre`` [features]; and ``unit``, 1 where
    features are brought to length 1 and 0 where not. A class whose mean is infinite is never predicted.
    """

    cosine = False
    means: Tensor
    centre: Tensor
    unit: Tensor

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, features))
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("unit", torch.zeros(()))

    def placed(self, features: Tensor) -> Tensor:
        """g(f): features [batch, features] where the means are."""
        moved = features.to(self.centre.dtype) - self.centre
        return torch.where(self.unit > 0, F.normalize(moved, dim=1), moved)

    def forward(self, features: Tensor) -> Tensor:
        """Squared distances [batch, classes], negative, so that the nearest mean has the largest output."""
        # not by products of matrices, which lose the digits of a small distance and make NaN of an infinite mean
        exact = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(self.placed(features), self.means, compute_mode=exact).square()
