"""Other mixes of classes than the one that a model was trained for.

Logits that assume the prior π_a say log p(x | j) + log π_a(j), up to what all classes share. Where classes come in the
mix π instead, z_j + log π(j) − log π_a(j) are the right ones (Saerens et al., 2002; Hong et al., CVPR 2021).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import UsageError

Prior = NDArray[np.float64]

MIXES = ("forward", "uniform", "backward")


def normalised(shares: ArrayLike) -> Prior:
    """Shares that sum to 1; refused where there is no such mix."""
    values = np.asarray(shares, dtype=np.float64)
    with np.errstate(over="ignore"):
        total = values.sum()
    if values.ndim != 1 or (values < 0).any() or not 0 < total < np.inf:
        raise UsageError("a prior is one share per class, none of them negative, and not all of them 0")
    mix: Prior = values / total
    return mix


def uniform_prior(classes: int) -> Prior:
    """Every class alike."""
    return np.full(classes, 1 / classes)


def train_prior(counts: ArrayLike) -> Prior:
    """Classes as often as in training; an absent one counts as one image."""
    return normalised(np.maximum(np.asarray(counts), 1))


def adjustment(target: Prior, assumed: Prior) -> Prior:
    """log π(j) − log π_a(j), to be added to the logits; −∞ for a class that does not occur."""
    with np.errstate(divide="ignore"):
        shift: Prior = np.log(target) - np.log(assumed)
    return shift


def mixes_of(counts: ArrayLike) -> dict[str, Prior]:
    """Three mixes in which a model may meet the classes, for training counts n_j.

    ``forward``: as in training. ``uniform``: all alike. ``backward``: the tail is the head: the rarest class comes as
    often as the most frequent one did, and so on through the ranks; equally frequent classes share what is theirs.
    """
    n = np.maximum(np.asarray(counts, dtype=np.float64), 1)
    descending = np.argsort(-n, kind="stable")
    reversed_ = np.empty_like(n)
    reversed_[descending] = n[descending[::-1]]
    _, which = np.unique(n, return_inverse=True)
    shared = np.bincount(which, weights=reversed_) / np.bincount(which)
    weights = {"forward": n, "uniform": np.ones_like(n), "backward": shared[which]}
    return {name: normalised(weights[name]) for name in MIXES}


def accuracy_under(per_class: Sequence[float | None], mix: Prior) -> float | None:
    """Σ_j π_j · accuracy_j over the classes that were measured, in percent; None where these do not occur."""
    accuracy = np.array([np.nan if value is None else value for value in per_class], dtype=np.float64)
    measured = ~np.isnan(accuracy)
    weight = mix[measured].sum()
    return float((mix[measured] * accuracy[measured]).sum() / weight) if weight > 0 else None


def name_of(prior: Prior, counts: ArrayLike) -> str:
    """ "uniform" or "train" where no share is further than a tenth from that mix, else "other"."""
    known = {"uniform": uniform_prior(len(prior)), "train": train_prior(counts)}
    return next((name for name, mix in known.items() if np.allclose(prior, mix, rtol=0.1, atol=0)), "other")
