"""The head of OLTR (Liu et al., CVPR 2019): features are enriched from a memory of class centroids.

v = softmax(A f)·M            the memory feature
γ = 10 / min_j ‖f − M_j‖      the reachability: large near a centroid
x = γ · (f + tanh(B f) ⊙ v)   the meta-embedding
z_j = ŵ_j · x / (1 + ‖x‖)     cosines, smaller for a short meta-embedding
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.base import Head

REACH = 10.0
MIN_SQUARE_DISTANCE = 1e-12  # lower bound: the reachability would be infinite at 0


class MemoryHead(Head):
    """Outputs in (−1, 1) of features and of ``centroids`` M [classes, features], which start as zeros."""

    cosine = True

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.centroids = nn.Parameter(torch.zeros(classes, features))
        self.recall = nn.Linear(features, classes)
        self.selector = nn.Linear(features, features)
        self.weight = nn.Parameter(F.normalize(torch.empty(classes, features).uniform_(-1, 1), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Squashed cosines [batch, classes] of features [batch, features]; distances need float32."""
        with full_precision(features):
            embedding = self.embed(features.to(self.weight.dtype))
            return F.linear(squashed(embedding), F.normalize(self.weight, dim=1))

    def embed(self, features: Tensor) -> Tensor:
        """The meta-embedding x."""
        memory = self.recall(features).softmax(dim=1) @ self.centroids
        nearest = (
            square_distances(features, self.centroids).amin(dim=1, keepdim=True).clamp(min=MIN_SQUARE_DISTANCE).sqrt()
        )
        embedding: Tensor = REACH / nearest * (features + self.selector(features).tanh() * memory)
        return embedding


def squashed(x: Tensor) -> Tensor:
    """x / (1 + ‖x‖): the same direction, a length below 1."""
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / (1 + length)


def square_distances(features: Tensor, centroids: Tensor) -> Tensor:
    """‖f_i − M_j‖² [batch, classes], without a tensor of [batch, classes, features]."""
    squares = features.square().sum(dim=1, keepdim=True) + centroids.square().sum(dim=1)
    return (squares - 2 * (features @ centroids.T)).clamp(min=0)


def full_precision(features: Tensor) -> AbstractContextManager[object]:
    """A context without autocast; meta tensors need none."""
    return nullcontext() if features.is_meta else torch.autocast(features.device.type, enabled=False)
