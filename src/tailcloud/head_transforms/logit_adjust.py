"""Logit adjustment after training (Menon et al., ICLR 2021)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.head_transforms.base import SHIFTED_HEADS, HeadTransform, TrainedModelView, look_up_head, shift_outputs
from tailcloud.heads import Head
from tailcloud.losses.base import not_negative
from tailcloud.losses.logit_adjustment import log_priors


class LogitAdjust(HeadTransform):
    """Subtracts τ·log π_j from the logits: s·z_j − τ·log π_j, π_j = n_j / N.

    Outputs are shifted by that over the scale s of the coming stage's loss, which must be the scale that the head was
    trained with.

    Args:
        counts: training images per class; an absent class counts as one image.
        tau: τ; with 1 the logits imply a uniform prior.
    """

    def __init__(self, counts: Sequence[int], *, tau: float = 1.0) -> None:
        super().__init__(counts)
        self.tau = not_negative("tau", tau)

    def prior(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """The prior before, divided by π^τ."""
        adjusted = before * np.exp(-self.tau * log_priors(self.counts))
        prior: NDArray[np.float64] = adjusted / adjusted.sum()
        return prior

    def head_after(self, before: str) -> str:
        """A linear head stays linear; a cosine head becomes a scaled one."""
        return look_up_head(before, SHIFTED_HEADS, "logit-adjust")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:
        """The trained head with shifted outputs."""
        shift_outputs(old, new, -self.tau * log_priors(self.counts) / trained.scale)
