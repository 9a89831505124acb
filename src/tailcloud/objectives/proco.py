"""Probabilistic contrastive learning (ProCo; Du et al., TPAMI 2024).

L = L(z, y) + b · mean over two further views of −log softmax(s + log π)_y
s_c = log E e^(v·u/T), u of class c,   which is the contrast with infinitely many embeddings of each class

The embeddings of class c have a von Mises–Fisher distribution with mean direction μ and concentration κ, estimated from
their mean m: with R = ‖m‖ and p dimensions, μ = m / R and κ = p R / (1 − R²). With ν = p/2 − 1 and κ̃ = ‖κ μ + v/T‖,

s_c = log (I_ν(κ̃) / κ̃^ν) − log (I_ν(κ) / κ^ν)
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.heads import Head
from tailcloud.heads.proco import WithClassMeans
from tailcloud.heads.projection import Projecting
from tailcloud.losses import Loss
from tailcloud.losses.base import batch_mean
from tailcloud.losses.logit_adjustment import log_priors
from tailcloud.objectives.bessel import LogBessel
from tailcloud.objectives.view_contrast import ViewContrast

LARGEST_KAPPA = 1e5


class ProCo(ViewContrast):
    """A loss on the outputs, and a contrast of embeddings with the estimated distributions of all classes.

    Args:
        loss: of the classifier.
        counts: training images per class; an absent class counts as one image in π.
        features: the length of a feature.
        contrast_weight: b, the weight of the contrast.
        temperature: T, the divisor of similarities.
    """

    needs: ClassVar[type[Head] | None] = WithClassMeans
    shift: Tensor

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int],
        features: int = 1,
        *,
        contrast_weight: float = 1.0,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(
            loss, counts, features, classify_weight=1.0, contrast_weight=contrast_weight, temperature=temperature
        )
        self.epoch = self.views * int(sum(counts))  # embeddings
        self.register_buffer("shift", torch.from_numpy(log_priors(counts)).float(), persistent=False)  # log π

    def contrast(self, head: Projecting, embedding: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy on s + log π; the estimates include this batch."""
        assert isinstance(head, WithClassMeans)
        with torch.autocast(embedding.device.type, enabled=False):
            head.observe(embedding, target, self.epoch)
            scores = contrast_scores(embedding, head.means(), self.temperature)
            return batch_mean(F.cross_entropy(scores + self.shift.to(scores), target, reduction="none"))


def contrast_scores(embedding: Tensor, means: Tensor, temperature: float) -> Tensor:
    """s [batch, classes] of embeddings [batch, p] of length 1, given the mean embedding of each class [classes, p]."""
    located = mean_parameters(means.double())
    point = embedding.double() / temperature
    own = located.square().sum(dim=1)  # κ²
    squares = own + 2 * point @ located.T + point.square().sum(dim=1, keepdim=True)  # κ̃²
    order, both = means.shape[1] // 2 - 1, torch.cat([own[None], squares.clamp(min=0)])
    logs: Tensor = LogBessel.apply(both, order)  # type: ignore[no-untyped-call]
    return (logs[1:] - logs[0]).to(embedding.dtype)


def mean_parameters(means: Tensor) -> Tensor:
    """κ μ [classes, p] of the distributions with these mean embeddings [classes, p]; κ is 1e5 at most."""
    lengths: Tensor = torch.linalg.vector_norm(means, dim=1, keepdim=True)
    spread = 1 - lengths.square()
    return means * means.shape[1] / torch.maximum(spread, means.shape[1] * lengths / LARGEST_KAPPA)
