"""Logit adjustment after training (Menon et al., ICLR 2021)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import SHIFTED, made_of
from tailcloud.head_transforms.output_shift import shift_outputs
from tailcloud.heads import Head
from tailcloud.losses.base import not_negative
from tailcloud.losses.logit_adjustment import log_priors


class LogitAdjust(HeadTransform):
    """Logits are lowered by how frequent their class was: s·z_j − τ·log π_j, π_j = n_j / N.

    What is added to the outputs is divided by the scale s of the coming stage's loss, which must be the one that the
    head was trained with.

    Args:
        counts: training images per class; an absent class counts as one image.
        tau: τ; with 1 the logits are those of balanced classes.
    """

    def __init__(self, counts: Sequence[int], *, tau: float = 1.0) -> None:
        super().__init__(counts)
        self.tau = not_negative("tau", tau)

    def prior(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Divided by π^τ, as the logits are lowered."""
        adjusted = before * np.exp(-self.tau * log_priors(self.counts))
        lowered: NDArray[np.float64] = adjusted / adjusted.sum()
        return lowered

    def kind(self, before: str) -> str:
        """Linear stays linear; a cosine head is scaled."""
        return made_of(before, SHIFTED, "logit-adjust")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:
        """The trained head and a shift of its outputs."""
        shift_outputs(old, new, -self.tau * log_priors(self.counts) / trained.scale)
