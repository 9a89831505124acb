"""Class weights: how much an image of each class counts, from the first epoch on or only later (DRW)."""

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tailcloud.losses.base import Loss, batch_mean, not_negative, within
from tailcloud.sampling import sample_weights

Weighting = Literal["none", "inverse", "effective"]


def class_weights(
    counts: Sequence[int], weights: Weighting, beta: float = 0.9999, power: float = 1.0
) -> NDArray[np.float64]:
    """One weight per class; they sum to the number of classes that have images, and an absent class weighs nothing.

    ``inverse``: ∝ 1 / n_j. ``effective``: ∝ (1 − β) / (1 − β^n_j), one over the effective number of images (Cui et
    al., CVPR 2019). ``none``: 1. All to the power ρ, before they are scaled to that sum (DisAlign's generalised
    re-weighting; Zhang et al., CVPR 2021).

    >>> class_weights([9, 1], "inverse")
    array([0.2, 1.8])
    """
    if weights not in get_args(Weighting):
        raise ValueError(f'weights = "{weights}" must be one of {", ".join(get_args(Weighting))}')
    options = {"beta": within("beta", beta, 0, 1)} if weights == "effective" else {}
    raw = sample_weights({"none": "ib", "inverse": "cb", "effective": "en"}[weights], counts, **options)
    raw = np.where(raw > 0, raw ** not_negative("power", power), 0.0)
    scaled: NDArray[np.float64] = raw * ((raw > 0).sum() / raw.sum())
    return scaled


class ClassWeights(nn.Module):
    """The weight of each sample's class; 1 for every class before the share ``defer`` of a stage is done."""

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
        """Take the weights that hold when that share of a stage is done."""
        if share >= self.defer:
            self.now.copy_(self.later)
        else:
            self.now.fill_(1.0)

    def forward(self, target: Tensor) -> Tensor:
        """[batch] weights of [batch] class numbers."""
        return self.now[target]


class WeightedLoss(Loss):
    """A loss whose classes may weigh differently; ``weights``, ``beta``, ``defer``, ``power`` are options of each.

    ``defer`` is the share of a stage's epochs after which the weights start: deferred re-weighting, DRW (Cao et al.,
    NeurIPS 2019). Without class weights nothing is multiplied.
    """

    weighs: ClassVar[bool] = True

    def __init__(
        self, counts: Sequence[int] | None, scale: float, weights: Weighting, beta: float, defer: float, power: float
    ) -> None:
        super().__init__(scale)
        self.per_image = weights == "none"  # Σ w_y is a matter of the whole batch, which ``in_whole`` sees to
        self.weights: ClassWeights | None = None
        if weights != "none":
            if counts is None:
                raise ValueError(f'weights = "{weights}" needs the counts of the classes')
            self.weights = ClassWeights(counts, weights, beta=beta, defer=defer, power=power)

    def advance(self, share: float) -> None:
        """Class weights start when their share of the stage is done."""
        if self.weights is not None:
            self.weights.advance(share)

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """A class that weighs twice as much is as good as shown twice as often; weights that never start do nothing."""
        if self.weights is None or self.weights.defer == 1:
            return super().prior(shown)
        weighed: NDArray[np.float64] = shown * self.weights.later.double().cpu().numpy()
        return super().prior(weighed / weighed.sum())

    def weighted_mean(self, each: Tensor, target: Tensor) -> Tensor:
        """Σ w_y · L / Σ w_y over a batch, as PyTorch means a weighted loss; 0 for an empty one."""
        if self.weights is None:
            return batch_mean(each)
        weight: Tensor = self.weights(target).to(each)
        return (weight * each).sum() / weight.sum().clamp(min=torch.finfo(each.dtype).tiny)

    def in_whole(self, mean: Tensor, target: Tensor, whole: Tensor) -> Tensor:
        """``weighted_mean`` of a piece, times what its images weigh on average to what those of its batch weigh."""
        if self.weights is None or self.per_image:
            return mean
        own, every = (batch_mean(self.weights(classes).to(mean)) for classes in (target, whole))
        return mean * own / every

    def mean_of_weighted(self, each: Tensor, target: Tensor) -> Tensor:
        """Σ w_y · L / B over a batch of B samples, as the focal losses were published; 0 for an empty one."""
        return batch_mean(each if self.weights is None else self.weights(target).to(each) * each)
