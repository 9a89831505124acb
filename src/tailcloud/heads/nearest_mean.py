"""The nearest class mean (NCM; Kang et al., ICLR 2020): nothing is trained."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.heads.base import Head


class NearestMeanHead(Head):
    """−‖g(f) − m_j‖² for the mean m_j of each class, where g subtracts ``centre`` and may normalise.

    All tensors are buffers: ``means`` [classes, features], in the space of g; ``centre`` [features]; and ``unit``, 1 if
    features are scaled to length 1, else 0. A class whose mean is infinite is never predicted.
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

    def normalise(self, features: Tensor) -> Tensor:
        """g(f): features [batch, features] in the space of the means."""
        centred = features.to(self.centre.dtype) - self.centre
        return torch.where(self.unit > 0, F.normalize(centred, dim=1), centred)

    def forward(self, features: Tensor) -> Tensor:
        """Negative squared distances [batch, classes]: the nearest mean has the largest output."""
        # not by matrix products, which are inaccurate for small distances and give NaN for infinite means
        exact = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(self.normalise(features), self.means, compute_mode=exact).square()
