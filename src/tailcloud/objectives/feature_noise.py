"""GCL with noise on the feature (eq. 5 of Li, Cheung & Lu, CVPR 2022), which the paper simplifies to one ε per logit.

z̃_j = z_j − ε₀ · δ_j · |w_jᵀ E|,   E ~ N(0, I) for every image,   δ_j = log n_max − log n_j
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head, LinearHead
from tailcloud.losses import Loss
from tailcloud.losses.base import at_least_float32, not_negative
from tailcloud.losses.logit_adjustment import log_priors
from tailcloud.objectives.base import Network, Objective

Noise = list[tuple[Tensor, Tensor | None]]


class FeatureNoise(Objective):
    """A loss on logits that are lowered by the projection of Gaussian feature noise onto each w_j.

    Classes with similar w_j are lowered together; δ is not divided by its largest value, and gradients flow through
    w_jᵀE, which also shortens w_j of rare classes. On a mixed batch λ·L(z̃, y_a) + (1 − λ)·L(z̃', y_b),
    each with its own noise.

    Args:
        loss: of the lowered logits.
        counts: training images per class; an absent class counts as one image.
        features: the length of a feature.
        strength: ε₀, the factor of the noise.
    """

    needs: ClassVar[type[Head] | None] = LinearHead
    distills: ClassVar[bool] = True
    per_image = True
    sizes: Tensor

    def __init__(self, loss: Loss, counts: Sequence[int], features: int = 1, *, strength: float = 0.5) -> None:
        super().__init__(loss, counts, features)
        self.strength, self.features = not_negative("strength", strength), features
        priors = torch.from_numpy(log_priors(counts)).float()
        self.register_buffer("sizes", priors.max() - priors, persistent=False)  # δ_j

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """Uniform, as for GCL."""
        return np.full(len(first), 1 / len(first))

    def draw(self, batch: Batch, generator: torch.Generator) -> Noise:
        """E [batch, features] and the loss's own numbers, for each term."""
        rows, device = batch.rows, batch.target.device
        return [
            (
                torch.randn(rows, self.features, device=device, generator=generator),
                self.loss.draw(rows, device, generator),
            )
            for _ in range(1 if batch.other is None else 2)
        ]

    def with_outputs(self, network: Network, batch: Batch, noise: Noise) -> tuple[Tensor, Tensor]:
        """The scalar to minimise, and the outputs before they are lowered."""
        output = network(batch.images)
        value = self.term(network, output, batch.target, noise[0])
        if batch.other is None or batch.lam is None:
            return value, output
        return batch.lam * value + (1 - batch.lam) * self.term(network, output, batch.other, noise[1]), output

    def term(self, network: Network, output: Tensor, target: Tensor, noise: tuple[Tensor, Tensor | None]) -> Tensor:
        """The loss for one of the labels."""
        value: Tensor = self.loss(self.cloud(network.head, output, noise[0]), target, epsilon=noise[1])
        return value

    def cloud(self, head: Head, output: Tensor, noise: Tensor) -> Tensor:
        """The lowered logits z̃, in float32 or better."""
        assert isinstance(head, LinearHead)
        logits = at_least_float32(output)
        with torch.autocast(output.device.type, enabled=False):
            lengths = F.linear(noise.to(logits), head.weight.to(logits)).abs()
        return logits - self.strength * self.sizes.to(logits) * lengths
