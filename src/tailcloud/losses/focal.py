"""Focal loss (Lin et al., ICCV 2017), and its class-balanced form (Cui et al., CVPR 2019).

L = (1 − p_y)^γ · (−log p_y)
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.losses.base import at_least_float32, not_negative, one_of
from tailcloud.losses.class_weights import WeightedLoss, Weighting
from tailcloud.losses.memory_efficient_ce import cross_entropy

Form = Literal["softmax", "sigmoid"]

MIN_ERROR = 1e-12  # lower bound of 1 − p_y: a power below 1 has an infinite slope at 0


class FocalLoss(WeightedLoss):
    """Cross-entropy with less weight on images whose class is already likely; gradients flow through the modulator.

    Args:
        counts: training images per class; needed by class weights only.
        scale: s, before softmax or sigmoid.
        focal: γ, the exponent of the modulator; 0 is cross-entropy.
        form: "softmax", or "sigmoid" as CB-Focal was published: the sum of C one-against-all terms, all with the weight
            of the true class.
        weights: of classes: "none", "inverse" (∝ 1/n_j) or "effective" (∝ (1 − β)/(1 − β^n_j)). The sum over a batch is
            divided by the number of samples.
        beta: β of the effective number.
        defer: the share of a stage after which the weights start.
        power: ρ, the power to which the weights are taken.
    """

    def __init__(
        self,
        counts: Sequence[int] | None = None,
        *,
        scale: float = 1.0,
        focal: float = 1.0,
        form: Form = "softmax",
        weights: Weighting = "none",
        beta: float = 0.9999,
        defer: float = 0.0,
        power: float = 1.0,
    ) -> None:
        super().__init__(counts, scale, weights, beta, defer, power)
        self.focal, self.form = not_negative("focal", focal), one_of("form", form, Form)
        self.per_image = True  # with or without class weights

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean loss of a batch."""
        logits = self.logits(at_least_float32(output))
        each = self.softmax(logits, target) if self.form == "softmax" else self.sigmoid(logits, target)
        return self.mean_of_weighted(each, target)

    def softmax(self, logits: Tensor, target: Tensor) -> Tensor:
        """(1 − p_y)^γ · (−log p_y) with p = softmax(z); 1 − p_y comes from the unweighted cross-entropy."""
        each = cross_entropy(logits, target)
        return (-torch.expm1(-each)).clamp(min=MIN_ERROR) ** self.focal * each

    def sigmoid(self, logits: Tensor, target: Tensor) -> Tensor:
        """Σ_j (1 − q_j)^γ · (−log q_j), q_j = σ(z_j) for the true class and σ(−z_j) for the others."""
        is_target = target[:, None] == torch.arange(logits.shape[1], device=logits.device)
        signed_logits = torch.where(is_target, logits, -logits)
        modulator = (self.focal * F.logsigmoid(-signed_logits)).exp()
        return -(modulator * F.logsigmoid(signed_logits)).sum(dim=1)
