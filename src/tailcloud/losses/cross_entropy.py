"""Softmax cross-entropy, the baseline of every table; with class weights, CB-CE (Cui et al., CVPR 2019)."""

from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.losses.base import at_least_float32, within
from tailcloud.losses.class_weights import WeightedLoss, Weighting


class CrossEntropyLoss(WeightedLoss):
    """−log p_y with p = softmax(s · z) (eq. 1). With a cosine head give it a scale, for example 30.

    Args:
        counts: training images per class; needed by class weights only.
        scale: s.
        weights: of classes: "none", "inverse" (∝ 1/n_j) or "effective" (∝ (1 − β)/(1 − β^n_j)). The mean over a batch
            is then Σ w_y·L / Σ w_y.
        beta: β of the effective number.
        defer: the share of a stage after which the weights start.
        power: ρ, the power to which the weights are taken.
        smoothing: ε of label smoothing: the label is (1 − ε)·[j = y] + ε / C; w_y weights all of it.
    """

    def __init__(
        self,
        counts: Sequence[int] | None = None,
        *,
        scale: float = 1.0,
        weights: Weighting = "none",
        beta: float = 0.9999,
        defer: float = 0.0,
        power: float = 1.0,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(counts, scale, weights, beta, defer, power)
        self.smoothing = within("smoothing", smoothing, 0, 1)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean cross-entropy of a batch."""
        logits = self.logits(at_least_float32(output))
        each = F.cross_entropy(logits, target, reduction="none", label_smoothing=self.smoothing)
        return self.weighted_mean(each, target)
