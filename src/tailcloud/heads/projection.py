"""Heads that embed features for a contrastive loss while they train, and predict with a plain classifier."""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.base import Head
from tailcloud.losses.base import at_least_float32

HIDDEN, EMBEDDING = 512, 128


class Projecting(Head):
    """A classifier that also has a ``projection``, which only training uses: the finished model does without it.

    A mixin: the class beside it is the classifier.
    """

    weight: nn.Parameter

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.projection = perceptron(features)

    def project(self, features: Tensor) -> Tensor:
        """Embeddings [batch, 128] of length 1, by a network of one hidden layer; in float32 or better."""
        return F.normalize(at_least_float32(self.projection(features)), dim=1)


def perceptron(features: int, *, norm: bool = True) -> nn.Sequential:
    """A network of one hidden layer, with batch norm before its ReLU."""
    between = nn.BatchNorm1d(HIDDEN) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(features, HIDDEN), between, nn.ReLU(inplace=True), nn.Linear(HIDDEN, EMBEDDING))
