"""Logit adjustment in the loss (Menon et al., ICLR 2021).

L = −log softmax(z + τ · log π)_y,   π_j = n_j / N
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, not_negative, within
from tailcloud.losses.memory_efficient_ce import smoothed_cross_entropy
from tailcloud.profile import at_least_one


def log_priors(counts: ArrayLike) -> NDArray[np.float64]:
    """log π_j with π_j = n_j / N; an absent class counts as one image."""
    n = at_least_one(counts)
    priors: NDArray[np.float64] = np.log(n) - np.log(n.sum())
    return priors


def prior_without(shift: Tensor, shown: NDArray[np.float64]) -> NDArray[np.float64]:
    """The class prior of clean logits that lack the ``shift`` [classes] of a loss: shown · e^−shift, normalised."""
    adjusted = shown * np.exp(-shift.double().cpu().numpy())
    cleaned: NDArray[np.float64] = adjusted / adjusted.sum()
    return cleaned


class LogitAdjustmentLoss(Loss):
    """Cross-entropy on logits plus τ·log π, so that the clean logits are free of the class prior.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
        tau: τ, the strength of the adjustment; with 1 the clean logits imply a uniform prior.
        smoothing: ε of label smoothing: the label is (1 − ε)·[j = y] + ε / C.
    """

    per_image = True
    shift: Tensor

    def __init__(self, counts: Sequence[int], *, scale: float = 1.0, tau: float = 1.0, smoothing: float = 0.0) -> None:
        super().__init__(scale)
        self.smoothing = within("smoothing", smoothing, 0, 1)
        shift = not_negative("tau", tau) * log_priors(counts)
        self.register_buffer("shift", torch.from_numpy(shift).float(), persistent=False)  # τ·log π_j

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """The clean logits lack what the loss adds: shown · π^−τ."""
        return prior_without(self.shift, shown)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean loss of a batch."""
        logits = self.adjust(self.logits(at_least_float32(output)))
        return batch_mean(smoothed_cross_entropy(logits, target, self.smoothing))

    def adjust(self, logits: Tensor) -> Tensor:
        """z + τ · log π of clean logits, in place."""
        return logits.add_(self.shift.to(logits))
