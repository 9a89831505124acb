"""Class priors: the class frequencies that a model was trained for, and others where it is used.

Logits with the implied prior π_a are log p(x | j) + log π_a(j), up to a constant that all classes share. Where classes
come with the prior π instead, z_j + log π(j) − log π_a(j) is correct (Saerens et al., 2002; Hong et al., CVPR 2021).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import UsageError

Prior = NDArray[np.float64]

EVALUATION_PRIORS = ("forward", "uniform", "backward")


def normalised(shares: ArrayLike) -> Prior:
    """Shares divided by their sum; ``UsageError`` if they are not a prior."""
    values = np.asarray(shares, dtype=np.float64)
    with np.errstate(over="ignore"):
        total = values.sum()
    if values.ndim != 1 or (values < 0).any() or not 0 < total < np.inf:
        raise UsageError("a prior is one share per class, none of them negative, and not all of them 0")
    prior: Prior = values / total
    return prior


def uniform_prior(classes: int) -> Prior:
    """The same share for every class."""
    return np.full(classes, 1 / classes)


def train_prior(counts: ArrayLike) -> Prior:
    """The shares of the classes in training; an absent class counts as one image."""
    return normalised(np.maximum(np.asarray(counts), 1))


def adjustment(target: Prior, implied: Prior) -> Prior:
    """log π(j) − log π_a(j), to be added to the logits; −∞ for a class with the target prior 0."""
    with np.errstate(divide="ignore"):
        shift: Prior = np.log(target) - np.log(implied)
    return shift


def evaluation_priors(counts: ArrayLike) -> dict[str, Prior]:
    """Three priors under which a model is tested, for training counts n_j.

    ``forward``: as in training. ``uniform``: equal shares. ``backward``: reversed, so that the rarest class is as
    frequent as the most frequent one was, and so on by rank; equally frequent classes get the mean of their shares.
    """
    n = np.maximum(np.asarray(counts, dtype=np.float64), 1)
    descending = np.argsort(-n, kind="stable")
    reversed_ = np.empty_like(n)
    reversed_[descending] = n[descending[::-1]]
    _, which = np.unique(n, return_inverse=True)
    shared = np.bincount(which, weights=reversed_) / np.bincount(which)
    weights = {"forward": n, "uniform": np.ones_like(n), "backward": shared[which]}
    return {name: normalised(weights[name]) for name in EVALUATION_PRIORS}


def accuracy_under(per_class: Sequence[float | None], prior: Prior) -> float | None:
    """Σ_j π_j · accuracy_j over the measured classes, in percent; None if their prior is 0."""
    accuracy = np.array([np.nan if value is None else value for value in per_class], dtype=np.float64)
    measured = ~np.isnan(accuracy)
    weight = prior[measured].sum()
    return float((prior[measured] * accuracy[measured]).sum() / weight) if weight > 0 else None


def importance_weights(target: NDArray[np.int64], prior: Prior) -> Prior:
    """One weight per image, so that images of the classes ``target`` count as if they came with the shares ``prior``.

    w_i = N · π(y_i) / n(y_i) / Σ π, with the N images, the n(y) images of class y, and the sum over the classes that
    have images. The mean is 1; all weights are 0 if the prior of every such class is 0.
    """
    images = np.bincount(target, minlength=len(prior))
    measured = prior[images > 0].sum()
    if not measured:
        return np.zeros(len(target))
    per_class = np.divide(prior, images, out=np.zeros_like(prior), where=images > 0)
    weights: Prior = len(target) / measured * per_class[target]
    return weights


def prior_name(prior: Prior, counts: ArrayLike) -> str:
    """ "uniform" or "train" if every share is within 10 % of that prior, else "other"."""
    known = {"uniform": uniform_prior(len(prior)), "train": train_prior(counts)}
    return next((name for name, other in known.items() if np.allclose(prior, other, rtol=0.1, atol=0)), "other")
