"""Gaussian clouded logits (Li, Cheung & Lu, CVPR 2022).

z̃_j = s · (cos θ_j − k · δ_j · |ε|)   (eq. 11; the factor k is the released code's, the paper has k = 1)

With logit adjustment (Menon et al., ICLR 2021), τ · log π_j is added to z̃_j; π_j = n_j / N.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, not_negative, one_of
from tailcloud.losses.logit_adjustment import log_priors, prior_without
from tailcloud.losses.memory_efficient_ce import cross_entropy
from tailcloud.profile import Strategy, cloud_sizes

Granularity = Literal["entry", "sample", "class"]

SIGMA = 1 / 3  # 3σ = 1: almost every ε lies in [−1, 1] by itself


class GCLLoss(Loss):
    """Cross-entropy on cosines, each lowered by a half-normal cloud that is widest for the rarest class.

    The cloud keeps rare classes away from softmax saturation, so that their few images still give gradients, and acts
    as a margin. In expectation it is a logit adjustment of s·k·0.266 nats for the rarest class.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, the factor from cosines to logits.
        noise: k, the factor of the cloud size; 0.5 on CIFAR and 1.0 on Places in the released code.
        margin: m, subtracted from the target's cosine (CosFace); 0.1 in the second stage of the released code.
        focal: exponent of the modulator (1 − p_y), through which no gradient flows; 1 in that second stage.
        strategy: how cloud sizes follow from counts (eq. 9 and table 3): "log", "cos", "pow3", "pow4".
        granularity: a fresh ε for every (sample, class) "entry", one per "sample", or one per "class".
        tau: τ of logit adjustment; 0 disables. With 1 the clean logits imply a uniform prior.

    Shapes: ``cosine`` [batch, classes] in [−1, 1]; ``target`` [batch]; the loss is a scalar. It can be differentiated
    once, and needs memory for two tensors of the size of the cosines, its gradient included.

    >>> loss = GCLLoss([5000, 50])
    >>> loss(torch.tensor([[0.9, 0.1]]), torch.tensor([0])) >= 0
    tensor(True)
    """

    clouds: ClassVar[bool] = True
    needs_cosine: ClassVar[bool] = True
    balances: ClassVar[bool] = True
    per_image = True
    reach: Tensor
    shift: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        scale: float = 30.0,
        noise: float = 0.5,
        margin: float = 0.0,
        focal: float = 0.0,
        strategy: Strategy = "log",
        granularity: Granularity = "entry",
        tau: float = 0.0,
    ) -> None:
        super().__init__(scale)
        reach = scale * not_negative("noise", noise) * cloud_sizes(counts, strategy)
        self.margin, self.focal = not_negative("margin", margin), not_negative("focal", focal)
        self.granularity = one_of("granularity", granularity, Granularity)
        self.exact = torch.from_numpy(reach)
        self.register_buffer("reach", self.exact.float(), persistent=False)  # s·k·δ_j, the most that logit j is lowered
        self.tau = not_negative("tau", tau)
        self.exact_shift = torch.from_numpy(tau * log_priors(counts))
        self.register_buffer("shift", self.exact_shift.float(), persistent=False)  # τ·log π_j

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """Uniform; with logit adjustment shown · π^−τ, where the clouds count as a margin and not as a prior."""
        return prior_without(self.shift, shown) if self.tau else super().prior(shown)

    def forward(self, cosine: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; draws its own |ε| unless ``epsilon`` is given."""
        if epsilon is None:
            epsilon = self.draw(len(cosine), cosine.device)
        clouded = self.cloud(cosine, epsilon)
        if self.margin:
            lowered = clouded.new_full((1, 1), -self.scale * self.margin).expand(len(target), 1)
            clouded.scatter_add_(1, target[:, None], lowered)
        if self.tau:
            clouded.add_((self.exact_shift if clouded.dtype == torch.float64 else self.shift).to(clouded))
        each = cross_entropy(clouded, target)
        if self.focal:
            each = focal_factor(each, self.focal) * each
        return batch_mean(each)

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
        """|ε| with ε ~ N(0, 1/3²) clamped to [−1, 1]: [rows, classes], [rows, 1] or [1, classes]."""
        return half_normal(self.shape(rows), device, generator)

    def shape(self, rows: int) -> tuple[int, int]:
        """The shape of |ε| for so many samples."""
        classes = len(self.reach)
        return {"entry": (rows, classes), "sample": (rows, 1), "class": (1, classes)}[self.granularity]

    def cloud(self, cosine: Tensor, epsilon: Tensor) -> Tensor:
        """The clouded logits s·(cos θ_j − k·δ_j·|ε|) of eq. 11, target and other classes alike."""
        logits = self.logits(at_least_float32(cosine))
        reach = self.exact if logits.dtype == torch.float64 else self.reach
        return logits.addcmul_(epsilon.abs().to(logits), reach.to(logits), value=-1)  # in place: C may be 100,000


def half_normal(shape: tuple[int, int], device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """|ε| with ε ~ N(0, 1/3²), whose deviation is 1/3, clamped to [−1, 1]."""
    normal = torch.randn(shape, device=device, generator=generator)
    return normal.mul_(SIGMA).abs_().clamp_(max=1.0)


def focal_factor(each: Tensor, focal: float) -> Tensor:
    """(1 − p_y)^γ without a gradient; rounding can push a cross-entropy below 0, where the power would be NaN."""
    return (-torch.expm1(-each.detach().clamp(min=0))) ** focal
