"""Hybrid contrastive learning (Wang et al., CVPR 2021).

L = α · L_contrast(first stream) + (1 − α) · L(second stream),   α = 1 − t²
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head
from tailcloud.heads.contrastive import ContrastiveHead
from tailcloud.losses import Loss
from tailcloud.losses.base import batch_mean, one_of, positive
from tailcloud.objectives.base import Network
from tailcloud.objectives.cumulative import CumulativeObjective

Kind = Literal["supervised", "prototypical"]


class Contrastive(CumulativeObjective):
    """Contrastive features from the first sampler, gradually replaced by a classifier from the second sampler.

    Args:
        loss: of the classifier.
        counts: training images per class.
        features: the length of a feature.
        kind: what attracts the embedding of an image: "supervised": other images of its class; "prototypical": the
            learned prototype of its class.
        temperature: τ, the divisor of similarities.
    """

    views: ClassVar[int] = 1
    needs: ClassVar[type[Head] | None] = ContrastiveHead

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int] = (),
        features: int = 1,
        *,
        kind: Kind = "supervised",
        temperature: float = 0.1,
    ) -> None:
        super().__init__(loss, counts, features)
        self.kind, self.temperature = one_of("kind", kind, Kind), positive("temperature", temperature)
        self.per_image = kind == "prototypical"

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The classifier learns from the second sampler only."""
        return self.loss.prior(second)

    def draw(self, batch: Batch, generator: torch.Generator) -> Tensor | None:
        """The random numbers of the classifier's loss."""
        assert batch.second is not None
        return self.loss.draw(batch.second.rows, batch.target.device, generator)

    def forward(self, network: Network, batch: Batch, noise: Tensor | None) -> Tensor:
        """The scalar to minimise; all images go through the backbone at once."""
        assert batch.second is not None
        (view,) = batch.views
        features = network.features(torch.cat([batch.images, view, batch.second.images]))
        viewed, second = features[: 2 * len(batch.target)], features[2 * len(batch.target) :]
        classified: Tensor = self.loss(network.head(second), batch.second.target, epsilon=noise)
        return self.alpha * self.contrast(network, viewed, batch.target.repeat(2)) + (1 - self.alpha) * classified

    def contrast(self, network: Network, features: Tensor, target: Tensor) -> Tensor:
        """The contrastive term of some features, in float32."""
        head = network.head
        assert isinstance(head, ContrastiveHead)
        embedding = head.project(features)
        with torch.autocast(features.device.type, enabled=False):
            if self.kind == "supervised":
                return supervised(embedding, target, self.temperature)
            return prototypical(embedding @ head.centres().T / self.temperature, target)


def supervised(embedding: Tensor, target: Tensor, temperature: float) -> Tensor:
    """The supervised contrastive loss (Khosla et al., 2020) of embeddings [batch, D] of length 1.

    −mean over i of mean over p ≠ i with y_p = y_i of log (e^(v_i·v_p/τ) / Σ_{k≠i} e^(v_i·v_k/τ)); an image that
    is alone in its class adds nothing.
    """
    itself = torch.eye(len(target), dtype=torch.bool, device=target.device)
    similarity = (embedding @ embedding.T / temperature).masked_fill(itself, -torch.inf)
    gap = (similarity.logsumexp(dim=1, keepdim=True) - similarity).masked_fill(itself, 0)
    positives = (target[:, None] == target) & ~itself
    return batch_mean((gap * positives).sum(dim=1) / positives.sum(dim=1).clamp(min=1))


def prototypical(logits: Tensor, target: Tensor) -> Tensor:
    """−mean of log (e^(v·p_y/τ) / Σ_{j≠y} e^(v·p_j/τ)), given v·p_j/τ [batch, classes]; 0 with a single class."""
    if logits.shape[1] == 1:
        return 0 * logits.sum()
    is_target = target[:, None] == torch.arange(logits.shape[1], device=target.device)
    others = logits.masked_fill(is_target, -torch.inf).logsumexp(dim=1)
    return batch_mean(others - logits.gather(1, target[:, None]).squeeze(1))
