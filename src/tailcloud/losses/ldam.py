"""Label-distribution-aware margins (Cao et al., NeurIPS 2019).

L = −log softmax(s · (cos θ_j − Δ_y · [j = y]))_y,   Δ_j ∝ n_j^(−1/4)
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailcloud.losses.base import at_least_float32, not_negative
from tailcloud.losses.class_weights import WeightedLoss, Weighting
from tailcloud.losses.memory_efficient_ce import cross_entropy
from tailcloud.profile import at_least_one


def margins(counts: ArrayLike, largest: float = 0.5) -> NDArray[np.float64]:
    """Δ_j = largest · n_j^(−1/4) / max_k n_k^(−1/4): the rarest class has the widest margin."""
    n = at_least_one(counts).astype(np.float64)
    widths: NDArray[np.float64] = largest * (n / n.min()) ** -0.25
    return widths


class LDAMLoss(WeightedLoss):
    """Cross-entropy on cosines, with a margin for the true class that is wider for rarer classes.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, the factor from cosines to logits.
        margin: the margin of the rarest class.
        weights: of classes: "none", "inverse" (∝ 1/n_j) or "effective" (∝ (1 − β)/(1 − β^n_j)). The mean over a batch
            is then Σ w_y·L / Σ w_y.
        beta: β of the effective number.
        defer: the share of a stage after which the weights start; 0.8 with effective ones is LDAM-DRW.
        power: ρ, the power to which the weights are taken.
    """

    needs_cosine: ClassVar[bool] = True
    lowered: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        scale: float = 30.0,
        margin: float = 0.5,
        weights: Weighting = "none",
        beta: float = 0.9999,
        defer: float = 0.0,
        power: float = 1.0,
    ) -> None:
        super().__init__(counts, scale, weights, beta, defer, power)
        widths = torch.from_numpy(-scale * margins(counts, not_negative("margin", margin))).float()
        self.register_buffer("lowered", widths, persistent=False)  # −s·Δ_j

    def forward(self, cosine: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean loss of a batch."""
        logits = self.logits(at_least_float32(cosine))
        logits.scatter_add_(1, target[:, None], self.lowered[target].to(logits)[:, None])
        return self.weighted_mean(cross_entropy(logits, target), target)
