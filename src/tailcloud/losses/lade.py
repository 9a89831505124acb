"""Label distribution disentangling loss, LADE (Hong et al., CVPR 2021).

L = −log softmax(z + log π)_y + α · L_R
L_R = −Σ_c π_c · (mean_{i: y_i = c} z_ic − M_c − λ · M_c²)
M_c = log ( 1/B · Σ_i e^(z_ic − log π_c − log C) )
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, not_negative
from tailcloud.losses.logit_adjustment import log_priors, prior_without
from tailcloud.losses.memory_efficient_ce import cross_entropy


class LADELoss(Loss):
    """Balanced softmax plus a regulariser that makes each logit an estimate of log p(x | c) / p(x).

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, of the head's outputs: 1 for a linear head, about 30 for a cosine one.
        alpha: α, the weight of the regulariser.
        lam: λ, how strongly the log-mean M_c of a class is held near 0.
    """

    priors: Tensor

    def __init__(self, counts: Sequence[int], *, scale: float = 1.0, alpha: float = 0.1, lam: float = 0.01) -> None:
        super().__init__(scale)
        self.alpha, self.lam = not_negative("alpha", alpha), not_negative("lam", lam)
        self.register_buffer("priors", torch.from_numpy(log_priors(counts)).float(), persistent=False)  # log π_c

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """The clean logits lack what the loss adds: shown / π."""
        return prior_without(self.priors, shown)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean loss of a batch, plus the regulariser of the batch."""
        logits = self.logits(at_least_float32(output))
        priors = self.priors.to(logits)
        balanced = batch_mean(cross_entropy(logits + priors, target))
        return balanced + self.alpha * self.regulariser(logits, target, priors) if len(target) else balanced

    def regulariser(self, logits: Tensor, target: Tensor, priors: Tensor) -> Tensor:
        """L_R; the mean over a class that is not in the batch is 0."""
        rows, classes = logits.shape
        is_target = target[:, None] == torch.arange(classes, device=logits.device)
        own = torch.where(is_target, logits, 0).sum(dim=0) / is_target.sum(dim=0).clamp(min=1)
        log_mean = (logits - priors - math.log(classes)).logsumexp(dim=0) - math.log(rows)
        return -(priors.exp() * (own - log_mean - self.lam * log_mean**2)).sum()
