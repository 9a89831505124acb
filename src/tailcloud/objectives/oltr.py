"""OLTR's objective (Liu et al., CVPR 2019): a loss on the outputs, and a loss that keeps centroids near their classes.

L = L(z, y) + 0.01 · (attraction + 0.01 · max(0, 10 − distance))
attraction   mean over i of ‖f_i − M_{y_i}‖²
distance     mean over i and j ≠ y_i of ‖f_i − M_j‖²
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head
from tailcloud.heads.oltr import MemoryHead, full_precision, square_distances
from tailcloud.losses import Loss
from tailcloud.losses.base import at_least_float32, batch_mean, not_negative
from tailcloud.objectives.base import Network, Objective


class MemoryObjective(Objective):
    """A loss on the outputs of a memory head, and two terms that keep each centroid near the features of its class.

    Args:
        loss: of the outputs.
        counts: training images per class.
        features: the length of a feature.
        weight: the weight of both terms.
        push: the weight of the second term relative to the first.
        margin: the mean squared distance to centroids of other classes beyond which the second term is 0.
    """

    mixes: ClassVar[bool] = False
    needs: ClassVar[type[Head] | None] = MemoryHead

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int] = (),
        features: int = 1,
        *,
        weight: float = 0.01,
        push: float = 0.01,
        margin: float = 10.0,
    ) -> None:
        super().__init__(loss, counts, features)
        self.weight, self.push = not_negative("weight", weight), not_negative("push", push)
        self.margin = not_negative("margin", margin)

    def draw(self, batch: Batch, generator: torch.Generator) -> Tensor | None:
        """The random numbers of the loss."""
        return self.loss.draw(batch.rows, batch.target.device, generator)

    def forward(self, network: Network, batch: Batch, noise: Tensor | None) -> Tensor:
        """The scalar to minimise."""
        features = network.features(batch.images)
        value: Tensor = self.loss(network.head(features), batch.target, epsilon=noise)
        return value + self.weight * self.centroid_loss(network.head, at_least_float32(features), batch.target)

    def centroid_loss(self, head: Head, features: Tensor, target: Tensor) -> Tensor:
        """Attraction to the centroid of the own class, and repulsion from the others."""
        assert isinstance(head, MemoryHead)
        with full_precision(features):
            distances = square_distances(features, head.centroids)
        own = distances.gather(1, target[:, None]).squeeze(1)
        attraction, foreign = batch_mean(own), distances.shape[1] - 1
        if not foreign:
            return attraction
        others = batch_mean(distances.sum(dim=1) - own) / foreign
        return attraction + self.push * (self.margin - others).clamp(min=0)
