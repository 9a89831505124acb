"""Which training images an epoch shows: instance-balanced, class-balanced, effective-number and CBEN sampling.

A sampler is a weight per class for one image of it; the mass of a class is its count times that weight.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import UsageError, unknown
from tailcloud.profile import Counts, class_counts, class_order, cloud_sizes

Weights = NDArray[np.float64]

BLOCK = 1 << 18  # images that are drawn at a time: what is made on the way stays small, and in the processor's caches


def _instance_balanced(counts: Counts) -> Weights:
    """Every image alike: class mass n_j / N."""
    return np.ones(len(counts))


def _class_balanced(counts: Counts) -> Weights:
    """Every class alike: weight 1 / n_j, class mass 1 / C."""
    return 1.0 / counts


def _square_root(counts: Counts) -> Weights:
    """Class mass ∝ √n_j (Mahajan et al., 2018)."""
    return 1.0 / np.sqrt(counts)


def _effective_number(counts: Counts, *, beta: float = 0.9999) -> Weights:
    """Weight 1 / E_j with the effective number E_j = (1 − β^n_j) / (1 − β) (Cui et al., CVPR 2019)."""
    return _inverse_effective_number(counts, np.full(len(counts), beta))


def _class_based_effective_number(counts: Counts, *, a: float = 0.999, b: float = 0.0009) -> Weights:
    """Effective numbers with a β_j of each class's own: β_j = b · (δ_j − δ_min) / (δ_max − δ_min) + a (eq. 13 and 14).

    ρ_j of eq. 13 is the weight of one image of class j. (Algorithm 1 of the paper writes δ_j − δ_max and inverts ρ;
    the equations are right.) The cloud sizes δ already lie in [0, 1]. Balanced counts give β_j = a everywhere.
    """
    return _inverse_effective_number(counts, b * cloud_sizes(counts) + a)


def _inverse_effective_number(counts: Counts, beta: Weights) -> Weights:
    """(1 − β) / (1 − β^n), exact for β close to 1; the limit for β = 1 is 1 / n."""
    if beta.min() < 0 or beta.max() > 1:
        raise UsageError(f"β must lie in [0, 1], not in [{beta.min():g}, {beta.max():g}]")
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = (1 - beta) / -np.expm1(counts * np.log(beta))
    return np.where(beta == 1, 1.0 / counts, weights)


WEIGHTS: dict[str, Callable[..., Weights]] = {
    "ib": _instance_balanced,
    "cb": _class_balanced,
    "sqrt": _square_root,
    "en": _effective_number,
    "cben": _class_based_effective_number,
}


def sample_weights(name: str, counts: ArrayLike, **options: Any) -> Weights:
    """One weight per class, for one image of that class; an absent class has weight 0.

    ``ib``, ``cb``, ``sqrt``, ``en`` (beta=0.9999) or ``cben`` (a=0.999, b=0.0009; the released code has
    a=0.9999, b=1e-5, which is the same as ``en`` to three digits).

    >>> sample_weights("cb", [4, 2, 0])
    array([0.25, 0.5 , 0.  ])
    """
    if name not in WEIGHTS:
        raise unknown("sampler", name, WEIGHTS)
    n = class_counts(counts)
    weights = np.zeros(len(n))
    weights[n > 0] = WEIGHTS[name](n[n > 0], **options)
    return weights


class Sampler(Protocol):
    """Draws one epoch of image indices. Same generator, same epoch: on every device, rank and resume."""

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:
        """The indices of one epoch, in order; ``share`` of the stage's epochs are done before it."""


class ShuffledSampler:
    """Every image once, in random order: instance-balanced sampling as everybody trains."""

    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:  # noqa: ARG002
        """A random permutation of all images."""
        return generator.permutation(self.size)


class WeightedSampler:
    """As many draws as there are images, with replacement: first a class by its mass, then any image of it.

    This is the multinomial over images that the weights describe. Setting it up takes time linear in images + classes,
    and a draw the logarithm of the classes.
    """

    def __init__(self, labels: ArrayLike, weights: ArrayLike) -> None:
        labels, weights = np.asarray(labels), np.asarray(weights, dtype=np.float64)
        self.counts = np.bincount(labels, minlength=len(weights))
        self.by_class = class_order(labels, len(weights))
        self.starts = np.cumsum(self.counts) - self.counts
        masses = np.cumsum(self.counts * weights)
        self.cumulative = masses / masses[-1]

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:  # noqa: ARG002
        """Independent draws, one per training image."""
        drawn = np.empty(len(self.by_class), np.int64)
        blocks = np.split(drawn, range(BLOCK, len(drawn), BLOCK))
        for block in blocks:
            block[:] = np.searchsorted(self.cumulative, generator.random(len(block)), side="right")
        for block in blocks:
            counts = self.counts[block]
            member = (generator.random(len(block)) * counts).astype(np.int64)
            np.minimum(member, counts - 1, out=member)  # a draw just under 1 may round up
            block[:] = self.by_class[self.starts[block] + member]
        return drawn


def make_sampler(name: str, labels: Sequence[int] | NDArray[np.int64], classes: int, **options: Any) -> Sampler:
    """The sampler of that name for a training set with these labels."""
    labels = np.asarray(labels)
    weights = sample_weights(name, np.bincount(labels, minlength=classes), **options)
    return ShuffledSampler(len(labels)) if name == "ib" else WeightedSampler(labels, weights)
