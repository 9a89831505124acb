"""Class weights for losses, from the first epoch or deferred (DRW)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tailcloud.losses.base import Loss, batch_mean, not_negative, one_of, within
from tailcloud.sampling import sample_weights

Weighting = Literal["none", "inverse", "effective"]


def class_weights(
    counts: Sequence[int], weights: Weighting, beta: float = 0.9999, power: float = 1.0
) -> NDArray[np.float64]:
    """One weight per class, scaled to sum to the number of classes with images; an absent class has weight 0.

    ``inverse``: ∝ 1 / n_j. ``effective``: ∝ (1 − β) / (1 − β^n_j), one over the effective number of images (Cui et
    al., CVPR 2019). ``none``: 1. All are raised to the power ρ before scaling (DisAlign's generalised
    re-weighting; Zhang et al., CVPR 2021).

    >>> class_weights([9, 1], "inverse")
    array([0.2, 1.8])
    """
    one_of("weights", weights, Weighting)
    options = {"beta": within("beta", beta, 0, 1)} if weights == "effective" else {}
    raw = sample_weights({"none": "ib", "inverse": "cb", "effective": "en"}[weights], counts, **options)
    raw = np.where(raw > 0, raw ** not_negative("power", power), 0.0)
    scaled: NDArray[np.float64] = raw * ((raw > 0).sum() / raw.sum())
    return scaled


class ClassWeights(nn.Module):
    """The weight of each sample's class; 1 until the share ``defer`` of a stage is done."""

    now: Tensor
    later: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        weights: Weighting,
        *,
        beta: float = 0.9999,
        defer: float = 0.0,
        power: float = 1.0,
    ) -> None:
        super().__init__()
        self.defer = within("defer", defer, 0, 1)
        later = torch.from_numpy(class_weights(counts, weights, beta, power)).float()
        self.register_buffer("later", later, persistent=False)
        self.register_buffer("now", later.clone(), persistent=False)
        self.advance(0.0)

    def advance(self, share: float) -> None:
        """Set the weights for that share of a stage."""
        if share >= self.defer:
            self.now.copy_(self.later)
        else:
            self.now.fill_(1.0)

    def forward(self, target: Tensor) -> Tensor:
        """[batch] weights of [batch] class numbers."""
        return self.now[target]


class WeightedLoss(Loss):
    """The base class of losses with class weights; ``weights``, ``beta``, ``defer`` and ``power`` are their options.

    ``defer`` is the share of a stage's epochs after which the weights start: deferred re-weighting, DRW (Cao et al.,
    NeurIPS 2019). Without class weights, nothing is multiplied.
    """

    weighs: ClassVar[bool] = True

    def __init__(
        self, counts: Sequence[int] | None, scale: float, weights: Weighting, beta: float, defer: float, power: float
    ) -> None:
        super().__init__(scale)
        self.per_image = weights == "none"  # Σ w_y is over the whole batch; ``in_whole`` corrects for micro-batches
        self.weights: ClassWeights | None = None
        if weights != "none":
            if counts is None:
                raise ValueError(f'weights = "{weights}" needs the class counts')
            self.weights = ClassWeights(counts, weights, beta=beta, defer=defer, power=power)

    def advance(self, share: float) -> None:
        """Class weights start once the share ``defer`` is done."""
        if self.weights is not None:
            self.weights.advance(share)

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """Twice the weight has the effect of twice the images; weights that never start have none."""
        if self.weights is None or self.weights.defer == 1:
            return super().prior(shown)
        weighed: NDArray[np.float64] = shown * self.weights.later.double().cpu().numpy()
        return super().prior(weighed / weighed.sum())

    def weighted_mean(self, each: Tensor, target: Tensor) -> Tensor:
        """Σ w_y · L / Σ w_y over a batch, PyTorch's weighted mean; 0 for an empty batch."""
        if self.weights is None:
            return batch_mean(each)
        weight: Tensor = self.weights(target).to(each)
        return (weight * each).sum() / weight.sum().clamp(min=torch.finfo(each.dtype).tiny)

    def in_whole(self, mean: Tensor, target: Tensor, whole: Tensor) -> Tensor:
        """The weighted mean of a micro-batch, times its mean weight over that of the batch."""
        if self.weights is None or self.per_image:
            return mean
        own, every = (batch_mean(self.weights(classes).to(mean)) for classes in (target, whole))
        return mean * own / every

    def mean_of_weighted(self, each: Tensor, target: Tensor) -> Tensor:
        """Σ w_y · L / B over a batch of B samples, as in the published focal losses; 0 for an empty batch."""
        return batch_mean(each if self.weights is None else self.weights(target).to(each) * each)
