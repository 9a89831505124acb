"""Balanced softmax (Ren et al., NeurIPS 2020).

L = −log ( n_y · e^z_y / Σ_j n_j · e^z_j )
"""

from collections.abc import Sequence

from tailcloud.losses.logit_adjustment import LogitAdjustmentLoss


class BalancedSoftmaxLoss(LogitAdjustmentLoss):
    """Softmax with terms weighted by the class counts: logit adjustment with τ = 1.

    n_j and π_j = n_j / N differ by a constant factor, which a softmax cancels.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
    """

    def __init__(self, counts: Sequence[int], *, scale: float = 1.0) -> None:
        super().__init__(counts, scale=scale, tau=1.0)
