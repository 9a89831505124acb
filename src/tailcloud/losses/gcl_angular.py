"""Angular GCL (Li, Cheung & Lu, "Adjusting Logit in Gaussian Form for Long-Tailed Visual Recognition", 2023).

z̃_j = s · cos(θ_j + φ_j),   φ_j = π/2 · ε₀ · δ_j · |ε| + m · [j = y]
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean, not_negative
from tailcloud.losses.gcl import focal_factor, half_normal
from tailcloud.losses.memory_efficient_ce import cross_entropy
from tailcloud.profile import cloud_sizes

MIN_SINE_SQUARE = 1e-12  # lower bound of sin² θ: its root has an infinite slope at 0


class GCLAngularLoss(Loss):
    """Cross-entropy on cosines whose angles are increased by a half-normal cloud, most for the rarest class.

    Where θ + φ would exceed π, the cosine is continued linearly as cos θ − sin φ, so that it keeps falling.

    Args:
        counts: training images per class; an absent class counts as one image.
        scale: s, the factor from cosines to logits.
        strength: ε₀, the largest increase of an angle, in right angles.
        margin: m, added to the target's angle (ArcFace), in radians.
        easy_margin: only increase angles below π/2.
        focal: exponent of the modulator (1 − p_y), through which no gradient flows.

    Shapes: ``cosine`` [batch, classes] in [−1, 1]; ``target`` [batch]; the loss is a scalar.
    """

    clouds: ClassVar[bool] = True
    needs_cosine: ClassVar[bool] = True
    shiftable: ClassVar[bool] = False
    balances: ClassVar[bool] = True
    per_image = True
    reach: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        scale: float = 30.0,
        strength: float = 0.1,
        margin: float = 0.0,
        easy_margin: bool = False,
        focal: float = 0.0,
    ) -> None:
        super().__init__(scale)
        self.margin, self.focal = not_negative("margin", margin), not_negative("focal", focal)
        self.easy_margin = easy_margin
        self.exact = torch.from_numpy(math.pi / 2 * not_negative("strength", strength) * cloud_sizes(counts))
        self.register_buffer("reach", self.exact.float(), persistent=False)  # π/2·ε₀·δ_j

    def forward(self, cosine: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; draws its own |ε| unless ``epsilon`` is given."""
        if epsilon is None:
            epsilon = self.draw(len(cosine), cosine.device)
        cosine = at_least_float32(cosine)
        turned = self.turn(cosine, self.turns(cosine, target, epsilon))
        each = cross_entropy(self.logits(turned), target)
        return batch_mean(focal_factor(each, self.focal) * each if self.focal else each)

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
        """|ε| with ε ~ N(0, 1/3²) clamped to [−1, 1]: [rows, classes]."""
        return half_normal((rows, len(self.reach)), device, generator)

    def turns(self, cosine: Tensor, target: Tensor, epsilon: Tensor) -> Tensor:
        """φ_j of every sample: the cloud of each class plus the margin of the target."""
        reach = self.exact if cosine.dtype == torch.float64 else self.reach
        clouds = epsilon.abs().to(cosine) * reach.to(cosine)
        is_target = target[:, None] == torch.arange(cosine.shape[1], device=target.device)
        return clouds + self.margin * is_target

    def turn(self, cosine: Tensor, turns: Tensor) -> Tensor:
        """cos(θ + φ) by the addition formula, or its continuation."""
        sine = (1 - cosine**2).clamp(min=MIN_SINE_SQUARE).sqrt()
        turned = cosine * turns.cos() - sine * turns.sin()
        if self.easy_margin:
            return torch.where(cosine > 0, turned, cosine)
        return torch.where(cosine > -turns.cos(), turned, cosine - turns.sin())
