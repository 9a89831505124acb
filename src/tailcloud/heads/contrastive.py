"""The head of hybrid contrastive networks (Wang et al., CVPR 2021): a classifier and a contrastive embedding."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.heads.linear import LinearHead
from tailcloud.heads.projection import EMBEDDING
from tailcloud.losses.base import at_least_float32


class ContrastiveHead(LinearHead):
    """z = W f + b predicts; ``project`` and ``prototypes`` are only used in training."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.projection = nn.Sequential(
            nn.Linear(features, features), nn.ReLU(inplace=True), nn.Linear(features, EMBEDDING)
        )
        self.prototypes = nn.Parameter(torch.randn(classes, EMBEDDING))

    def project(self, features: Tensor) -> Tensor:
        """Embeddings [batch, 128] of length 1, by a network of one hidden layer; in float32 or better."""
        return F.normalize(at_least_float32(self.projection(features)), dim=1)

    def centres(self) -> Tensor:
        """The prototype of each class, [classes, 128], of length 1."""
        return F.normalize(self.prototypes, dim=1)
