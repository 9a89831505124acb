"""The vector-scaling (VS) loss (Kini et al., NeurIPS 2021): logits are scaled and shifted by class.

L = −log softmax(Δ · z + τ · log π)_y,   Δ_j = (n_j / n_max)^γ,   π_j = n_j / N
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tailcloud.losses.base import not_negative
from tailcloud.losses.logit_adjustment import LogitAdjustmentLoss
from tailcloud.profile import at_least_one


class VectorScalingLoss(LogitAdjustmentLoss):
    """Logit adjustment whose logits are also multiplied by Δ, which is smallest for the rarest class.

    A rare class needs a larger clean logit for the same probability. Unlike the shift, this still acts when every
    training image is recognised: there, softmax saturates and a shift alone changes little.

    The implied prior is that of logit adjustment. It is exact for γ = 0; Δ scales evidence and prior of a class alike.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
        tau: τ, the strength of the shift; with 1 the clean logits imply a uniform prior.
        gamma: γ, the exponent of the factors; 0 is logit adjustment.
        smoothing: ε of label smoothing.
    """

    factors: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        scale: float = 1.0,
        tau: float = 1.0,
        gamma: float = 0.05,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(counts, scale=scale, tau=tau, smoothing=smoothing)
        n = at_least_one(counts).astype(np.float64)
        factors = (n / n.max()) ** not_negative("gamma", gamma)
        self.register_buffer("factors", torch.from_numpy(factors).float(), persistent=False)  # Δ_j

    def adjust(self, logits: Tensor) -> Tensor:
        """Δ · z + τ · log π of clean logits, in place."""
        return super().adjust(logits.mul_(self.factors.to(logits)))
