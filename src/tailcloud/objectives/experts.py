"""Balanced product of experts (BalPoE; Aimar et al., CVPR 2023): each expert is adjusted to another class prior.

L = mean over experts e of L(z_e + τ_e · log π, y),   π_j = n_j / N;   prediction: the mean of z_e
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import ExpertHeads
from tailcloud.losses import Loss
from tailcloud.losses.base import at_least_float32
from tailcloud.losses.logit_adjustment import log_priors
from tailcloud.objectives.base import Network, Objective
from tailcloud.objectives.classify import Classify, Noise


class Experts(Objective):
    """The mean of the experts' losses, each on logits plus its own τ·log π.

    With cross-entropy, an expert with τ = 0 favours frequent classes, one with τ = 2 rare ones. The mean logits are
    those of the mean τ: with (0, 1, 2) they imply a uniform prior. With a loss that balances classes already, such as
    GCL, (−1, 0, 1) does. On a mixed batch each expert has λ·L(z_e, y_a) + (1 − λ)·L(z_e, y_b). Each has random numbers
    of its own.

    Args:
        loss: of every expert.
        counts: training images per class; an absent class counts as one image.
        features: the length of the features of all experts together.
        taus: τ_e, one for each expert (``model.experts``).
    """

    per_image = True
    weighs: ClassVar[bool] = True
    expert_heads: ClassVar[bool] = True
    shifts: Tensor

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int],
        features: int = 1,
        *,
        taus: list[float] = [0.0, 1.0, 2.0],  # noqa: B006 (a list, as in TOML; it is not changed)
    ) -> None:
        super().__init__(loss, counts, features)
        if len(taus) < 2 or not np.isfinite(taus).all():
            raise ValueError(f"taus = {taus} must be two or more finite numbers, one for each expert")
        if any(taus) and not loss.shiftable:
            raise ValueError(
                f"taus = {taus} shift logits, and {type(loss).__name__} takes outputs as angles; set all of them to 0"
            )
        self.experts, self.single = len(taus), Classify(loss, counts, features)
        self.mean_shift = np.mean(taus) * log_priors(counts)  # in nats
        shifts = np.outer(taus, log_priors(counts)) / loss.scale
        self.register_buffer("shifts", torch.from_numpy(shifts).float(), persistent=False)

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean logits lack the mean of what the losses add: the loss's prior times π^−τ̄."""
        adjusted = self.single.prior(first, second) * np.exp(-self.mean_shift)
        cleaned: NDArray[np.float64] = adjusted / adjusted.sum()
        return cleaned

    def draw(self, batch: Batch, generator: torch.Generator) -> list[Noise]:
        """The random numbers of every expert."""
        return [self.single.draw(batch, generator) for _ in range(self.experts)]

    def forward(self, network: Network, batch: Batch, noise: list[Noise]) -> Tensor:
        """The scalar to minimise."""
        head = network.head
        assert isinstance(head, ExpertHeads)
        outputs = head.each(network.features(batch.images))
        losses = [
            self.single.of_outputs(at_least_float32(output) + shift, batch, own)
            for output, shift, own in zip(outputs, self.shifts, noise, strict=True)
        ]
        return torch.stack(losses).mean()
