"""Bilateral-branch network (Zhou et al., CVPR 2020).

z = W · 2·[α f_a, (1 − α) f_b] + b,   L = α · L(z, y_a) + (1 − α) · L(z, y_b),   α = 1 − t²
"""

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.objectives.base import Network
from tailcloud.objectives.cumulative import CumulativeObjective

Noise = tuple[Tensor | None, Tensor | None]


class BBN(CumulativeObjective):
    """One branch learns from the first sampler, the other from the second; one head sees the features of both.

    Needs a backbone with two branches (``model.branches = 2``). In prediction both branches see the same image, with
    equal weights (α = 0.5).
    """

    branches: ClassVar[int] = 2
    per_image = True

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """Uniform: branches with opposite priors have equal weights."""
        return np.full(len(first), 1 / len(first))

    def draw(self, batch: Batch, generator: torch.Generator) -> Noise:
        """The random numbers of both terms."""
        rows, device = batch.rows, batch.target.device
        return self.loss.draw(rows, device, generator), self.loss.draw(rows, device, generator)

    def forward(self, network: Network, batch: Batch, noise: Noise) -> Tensor:
        """The scalar to minimise."""
        assert batch.second is not None
        images = torch.cat([batch.images, batch.second.images])
        pairs = images.view(2, len(batch.target), *images.shape[1:])
        output = network.head(self.weighed(network.features(pairs)))
        usual: Tensor = self.loss(output, batch.target, epsilon=noise[0])
        other: Tensor = self.loss(output, batch.second.target, epsilon=noise[1])
        return self.alpha * usual + (1 - self.alpha) * other

    def weighed(self, features: Tensor) -> Tensor:
        """2·[α f_a, (1 − α) f_b] of features [batch, 2·D]."""
        usual, other = features.chunk(2, dim=1)
        return 2 * torch.cat([self.alpha * usual, (1 - self.alpha) * other], dim=1)
