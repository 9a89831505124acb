"""Samplers: which training images an epoch shows, from instance-balanced to class-balanced to reversed.

A sampler gives each class a weight for one of its images; the mass of a class is its count times that weight.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import UsageError, unknown
from tailcloud.profile import Counts, class_counts, class_order, cloud_sizes

Weights = NDArray[np.float64]

BLOCK = 1 << 18  # images drawn at a time, so that temporary arrays stay small and in the CPU caches


def _instance_balanced(counts: Counts) -> Weights:
    """The same weight for every image: class mass n_j / N."""
    return np.ones(len(counts))


def _class_balanced(counts: Counts) -> Weights:
    """The same mass for every class: weight 1 / n_j, class mass 1 / C."""
    return 1.0 / counts


def _square_root(counts: Counts) -> Weights:
    """Class mass ∝ √n_j (Mahajan et al., 2018)."""
    return 1.0 / np.sqrt(counts)


def _effective_number(counts: Counts, *, beta: float = 0.9999) -> Weights:
    """Weight 1 / E_j with the effective number E_j = (1 − β^n_j) / (1 − β) (Cui et al., CVPR 2019)."""
    return _inverse_effective_number(counts, np.full(len(counts), beta))


def _class_based_effective_number(counts: Counts, *, a: float = 0.999, b: float = 0.0009) -> Weights:
    """Effective numbers with a β_j for each class: β_j = b · (δ_j − δ_min) / (δ_max − δ_min) + a (eq. 13 and 14).

    ρ_j of eq. 13 is the weight of one image of class j. (Algorithm 1 of the paper writes δ_j − δ_max and inverts ρ;
    the equations are right.) The cloud sizes δ, always those of eq. 9, already lie in [0, 1]. Balanced counts give
    β_j = a everywhere.
    """
    return _inverse_effective_number(counts, b * cloud_sizes(counts) + a)


def _reverse(counts: Counts) -> Weights:
    """Reversed: class mass ∝ 1 / n_j (BBN, Zhou et al., CVPR 2020)."""
    weights: Weights = 1.0 / counts.astype(np.float64) ** 2
    return weights


def _progressively_balanced(counts: Counts, share: float = 0.0) -> Weights:
    """From instance-balanced to class-balanced: class mass (1 − t)·n_j / N + t / C (Kang et al., ICLR 2020).

    t is the share of the stage that is done; it follows from the epoch and is not an option.
    """
    weights: Weights = share / len(counts) * _class_balanced(counts) + (1 - share) / counts.sum()
    return weights


def _class_aware(counts: Counts, *, consecutive: int = 4) -> Weights:
    """Class mass 1 / C, one class after the other (Shen et al., ECCV 2016)."""
    if consecutive < 1:
        raise UsageError(f"consecutive = {consecutive} must be at least 1")
    return _class_balanced(counts)


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
    "pb": _progressively_balanced,
    "reverse": _reverse,
    "class-aware": _class_aware,
}


def sample_weights(name: str, counts: ArrayLike, **options: Any) -> Weights:
    """One weight per class, for one image of that class; an absent class has weight 0.

    ``ib``, ``cb``, ``sqrt``, ``en`` (beta=0.9999), ``cben`` (a=0.999, b=0.0009; the released code has
    a=0.9999, b=1e-5, which is the same as ``en`` to three digits), ``pb`` (share=0.0 of the stage done), ``reverse`` or
    ``class-aware`` (consecutive=4, which does not change the weights).

    >>> sample_weights("cb", [4, 2, 0])
    array([0.25, 0.5 , 0.  ])
    """
    if name not in WEIGHTS:
        raise unknown("sampler", name, WEIGHTS)
    n = class_counts(counts)
    weights = np.zeros(len(n))
    weights[n > 0] = WEIGHTS[name](n[n > 0], **options)
    return weights


def class_shares(name: str, counts: ArrayLike, **options: Any) -> Weights:
    """The share of each class among the images that a sampler draws; at the end of a stage, if it changes.

    An absent class counts as one image, so that its share is 0 only if the sampler excludes it.

    >>> class_shares("cb", [6, 2])
    array([0.5, 0.5])
    """
    n = np.maximum(class_counts(counts), 1)
    masses = n * sample_weights(name, n, **options, **({"share": 1.0} if name == "pb" else {}))
    shares: Weights = masses / masses.sum()
    return shares


class Sampler(Protocol):
    """Draws the image indices of one epoch. The same generator gives the same epoch, on every device and rank."""

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:
        """The indices of one epoch, in order; ``share`` is the share of the stage that is done before it."""


class ShuffledSampler:
    """Every image once, in random order: the usual instance-balanced sampling."""

    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:  # noqa: ARG002
        """A random permutation of all images."""
        return generator.permutation(self.size)


class WeightedSampler:
    """As many draws as there are images, with replacement: first a class by its mass, then one of its images.

    This is a multinomial over images with the given weights. The set-up time is linear in images + classes; a draw
    takes logarithmic time in the classes.
    """

    def __init__(self, labels: ArrayLike, weights: ArrayLike) -> None:
        labels, weights = np.asarray(labels), np.asarray(weights, dtype=np.float64)
        self.counts = np.bincount(labels, minlength=len(weights))
        self.by_class = class_order(labels, len(weights))
        self.starts = np.cumsum(self.counts) - self.counts
        masses = np.cumsum(self.counts * weights)
        self.cumulative: Weights = masses / masses[-1]

    def cumulative_masses(self, share: float) -> Weights:  # noqa: ARG002
        """Cumulative class masses when that share of the stage is done."""
        return self.cumulative

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:
        """Independent draws, one per training image."""
        cumulative = self.cumulative_masses(share)
        drawn = np.empty(len(self.by_class), np.int64)
        blocks = np.split(drawn, range(BLOCK, len(drawn), BLOCK))
        for block in blocks:
            block[:] = np.searchsorted(cumulative, generator.random(len(block)), side="right")
        for block in blocks:
            counts = self.counts[block]
            member = (generator.random(len(block)) * counts).astype(np.int64)
            np.minimum(member, counts - 1, out=member)  # a draw just under 1 may round up
            block[:] = self.by_class[self.starts[block] + member]
        return drawn


class ProgressiveSampler(WeightedSampler):
    """Draws whose class masses change from instance-balanced to class-balanced during a stage."""

    def __init__(self, labels: ArrayLike, classes: int) -> None:
        labels = np.asarray(labels)
        super().__init__(labels, sample_weights("cb", np.bincount(labels, minlength=classes)))
        self.own = np.cumsum(self.counts) / self.counts.sum()

    def cumulative_masses(self, share: float) -> Weights:
        """Instance-balanced at the start, class-balanced at the end."""
        mixed: Weights = (1 - share) * self.own + share * self.cumulative
        return mixed


class ClassAwareSampler:
    """One class after the other in random order, a few images of each; a finished order is shuffled again.

    As many draws as there are images. All classes, and all images of a class, are shown equally often up to a
    remainder: class-balanced sampling without its variance.
    """

    def __init__(self, labels: ArrayLike, classes: int, *, consecutive: int = 4) -> None:
        labels = np.asarray(labels)
        self.counts = np.bincount(labels, minlength=classes)
        self.by_class = class_order(labels, classes)
        self.starts = np.cumsum(self.counts) - self.counts
        self.consecutive = consecutive

    def draw(self, generator: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:  # noqa: ARG002
        """The images of one epoch, which starts with new random orders."""
        size, present = len(self.by_class), np.flatnonzero(self.counts)
        visits = -(-size // self.consecutive)
        classes = _rounds(generator, np.array([len(present)]), np.array([visits]))
        shown = present[classes].repeat(self.consecutive)[:size]
        times = np.bincount(shown, minlength=len(self.counts))
        drawn = np.empty(size, np.int64)
        members = _rounds(generator, self.counts, times)
        drawn[class_order(shown, len(self.counts))] = self.by_class[self.starts.repeat(times) + members]
        return drawn


def _rounds(generator: np.random.Generator, sizes: Counts, lengths: Counts) -> NDArray[np.int64]:
    """For each size n and its length: random permutations of 0 … n − 1 in a row, cut at that length; concatenated."""
    rounds = -(-lengths // np.maximum(sizes, 1))
    each = sizes.repeat(rounds)  # the size of every order, rows joined
    first = np.cumsum(each) - each
    keys = generator.random(int(each.sum()))
    keys += np.arange(len(each)).repeat(each)
    orders = np.argsort(keys, kind="stable")
    orders -= first.repeat(each)
    ends = np.cumsum(rounds * sizes)
    begins = (ends - rounds * sizes - (np.cumsum(lengths) - lengths)).repeat(lengths)
    chosen: NDArray[np.int64] = orders[np.arange(len(begins)) + begins]
    return chosen


def make_sampler(name: str, labels: Sequence[int] | NDArray[np.int64], classes: int, **options: Any) -> Sampler:
    """The sampler of that name for a training set with these labels."""
    labels = np.asarray(labels)
    weights = sample_weights(name, np.bincount(labels, minlength=classes), **options)
    match name:
        case "ib":
            return ShuffledSampler(len(labels))
        case "pb":
            return ProgressiveSampler(labels, classes)
        case "class-aware":
            return ClassAwareSampler(labels, classes, **options)
        case _:
            return WeightedSampler(labels, weights)
