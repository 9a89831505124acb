"""The profile of a data set by its class counts: imbalance, shot groups, cloud sizes, fingerprint."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import TailcloudWarning, UsageError, unknown
from tailcloud.formatting import some_of

Counts = NDArray[np.int64]
Strategy = Literal["log", "cos", "pow3", "pow4"]

GROUPS = ("many", "medium", "few")
MANY_ABOVE, FEW_BELOW = 100, 20  # training images
LISTED_CLASSES = 5  # that a message names


def class_counts(counts: ArrayLike) -> Counts:
    """Training images per class as an int64 vector, checked: whole numbers, none negative, not all zero."""
    values = np.asarray(counts)
    if values.ndim != 1 or not values.size:
        raise UsageError(f"class counts must be a non-empty list with one number per class, not shape {values.shape}")
    if not np.issubdtype(values.dtype, np.integer) and not np.array_equal(values, np.floor(values)):
        raise UsageError("class counts must be whole numbers of images")
    if values.min() < 0:
        raise UsageError(f"class counts cannot be negative: class {int(values.argmin())} has {values.min()}")
    if values.max() == 0:
        raise UsageError("every class count is 0: there are no training images")
    return values.astype(np.int64)


def at_least_one(counts: ArrayLike) -> Counts:
    """Class counts with 1 for an absent class, and a warning: log 0 is not finite."""
    checked = class_counts(counts)
    if not checked.min():
        absent = np.flatnonzero(checked == 0).tolist()
        warnings.warn(f"{classes_text(absent)} without a training image, treated as 1 image", TailcloudWarning, 3)
    return np.maximum(checked, 1)


def cloud_sizes(counts: ArrayLike, strategy: Strategy = "log") -> NDArray[np.float64]:
    """The cloud size δ of each class: 0 for the most frequent class, 1 for the rarest.

    ``log``: δ_j = log n_max − log n_j (eq. 9). The other strategies are those of the paper's table 3:
    ``cos``: cos(n_j / n_max · π/2); ``pow3`` and ``pow4``: n_max^(1/3) − n_j^(1/3), n_max^(1/4) − n_j^(1/4).
    Each is divided by its largest value. Balanced counts have no cloud: all zeros.
    An absent class (count 0) is treated as a class of one image, with a warning.

    Reference: Li, Cheung & Lu, "Long-tailed Visual Recognition via Gaussian Clouded Logit Adjustment", CVPR 2022.
    """
    if strategy not in get_args(Strategy):
        raise unknown("cloud size strategy", strategy, get_args(Strategy))
    n = at_least_one(counts).astype(np.float64)
    n_max = n.max()
    if n.min() == n_max:
        return np.zeros_like(n)
    match strategy:
        case "log":
            sizes = np.log(n_max) - np.log(n)
        case "cos":
            sizes = np.cos(n / n_max * np.pi / 2)
        case "pow3":
            sizes = np.cbrt(n_max) - np.cbrt(n)
        case "pow4":
            sizes = n_max**0.25 - n**0.25
    sizes[n == n_max] = 0.0  # cos(π/2) is 6e-17 in floating point
    scaled: NDArray[np.float64] = sizes / sizes.max()
    return scaled


def shot_groups(counts: ArrayLike) -> dict[str, NDArray[np.int64]]:
    """The classes of each shot group, by training images: many > 100, medium 20 … 100, few < 20 (Liu et al., 2019)."""
    n = class_counts(counts)
    many, few = n > MANY_ABOVE, n < FEW_BELOW
    return {
        "many": np.flatnonzero(many),
        "medium": np.flatnonzero(~many & ~few),
        "few": np.flatnonzero(few),
    }


def tail_group(counts: ArrayLike) -> str:
    """The rarest shot group that has any class."""
    groups = shot_groups(counts)
    return next(name for name in reversed(GROUPS) if len(groups[name]))


def worst_tail(counts: Sequence[int], per_class: Sequence[float | None], limit: int = 8) -> list[int]:
    """The classes of the rarest shot group with the lowest accuracy, the worst first.

    ``per_class`` is their accuracy in percent. Ties are ordered by training images, the fewest first; classes
    with 100 % accuracy or without test images are left out.
    """
    members = shot_groups(counts)[tail_group(counts)].tolist()
    wrong = {index: value for index in members if (value := per_class[index]) is not None and value < 100}
    return sorted(wrong, key=lambda index: (wrong[index], counts[index], index))[:limit]


def class_order(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """The positions of all images, class by class, ascending within a class: a stable sort in time linear in images.

    NumPy sorts 16-bit integers by counting (radix sort) and longer ones by comparing, so more than 65,536 classes are
    sorted by their low 16 bits, then by their high bits.
    """
    order = np.argsort(labels.astype(np.uint16), kind="stable")
    if classes > 1 << 16:
        order = order[np.argsort((labels[order] >> 16).astype(np.uint16), kind="stable")]
    return order


def fingerprint(*arrays: NDArray[np.generic]) -> str:
    """The first 16 hex digits of the SHA-256 of some arrays: shapes and contents, in order."""
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def classes_text(classes: Sequence[int], names: Sequence[str] | None = None) -> str:
    """ "class 3" or "classes 3, 7, 8": a few of them by name, then how many more."""
    listed = some_of([names[c] if names else str(c) for c in classes], LISTED_CLASSES)
    return f"{'class' if len(classes) == 1 else 'classes'} {listed}"


@dataclass(frozen=True)
class Profile:
    """The class counts of a training set, and figures derived from them."""

    counts: Counts
    class_names: Sequence[str]

    @property
    def classes(self) -> int:
        """The number of classes, absent ones included."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """The number of training images."""
        return int(self.counts.sum())

    @property
    def ratio(self) -> float:
        """The realised imbalance ratio γ: images of the most frequent class over those of the rarest present one."""
        return float(self.counts.max() / self.counts[self.counts > 0].min())

    @property
    def is_balanced(self) -> bool:
        """Whether all classes have the same number of images."""
        return bool(self.counts.min() == self.counts.max())

    @cached_property
    def groups(self) -> dict[str, NDArray[np.int64]]:
        """The classes of each shot group."""
        return shot_groups(self.counts)

    def remarks(self, *, limited: bool = False) -> list[str]:
        """Notes for the user about these counts, a sentence each; ``limited``: large classes have more images."""
        remarks = []
        absent = np.flatnonzero(self.counts == 0).tolist()
        single = np.flatnonzero(self.counts == 1).tolist()
        if absent:
            text = classes_text(absent, self.class_names)
            remarks.append(f"{text}: no training image; it cannot be learned.")
        if single:
            text = classes_text(single, self.class_names)
            remarks.append(f"{text}: a single training image; accuracy depends on that image.")
        if self.classes == 1:
            remarks.append("There is only one class: every prediction will be that class.")
        elif self.is_balanced and not limited:
            remarks.append("All classes have the same number of images: there is no tail.")
        return remarks
