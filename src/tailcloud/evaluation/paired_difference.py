"""Two models on the same images: the difference of their accuracy, and its standard error.

    accuracy     Σ_i w_i · correct_i
    difference   D = Σ_i w_i · d_i,   d_i = after_i − before_i ∈ {−1, 0, 1}
    error        √(Σ_i w_i² · q_c),   q_c = (k_c + q) / (n_c + 1),   q = (k + 1) / (N + 1)

The weights w_i (sum 1) say what counts: 1 / N for images alike, 1 / (C·n_c) for an image of class c if the C classes
count alike. q_c is the chance that an image of class c changes: k_c of its n_c images do, and k of all N. It is drawn
towards that of all classes, because a class of one image that does not change is no certainty. With images alike and
many of them, D / error is the square root of McNemar's statistic (1947).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.errors import UsageError
from tailcloud.formatting import number
from tailcloud.profile import shot_groups

SelectionObjective = Literal["balanced", "overall", "few"]
FIGURES: dict[SelectionObjective, str] = {"balanced": "balanced_accuracy", "overall": "top1", "few": "few"}
FIGURE_NAMES: dict[SelectionObjective, str] = {
    "balanced": "balanced accuracy",
    "overall": "top-1 accuracy",
    "few": "accuracy of few-shot classes",
}
BEYOND_CHANCE = 1.96  # errors: 95 %


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy before and after, in percent, and the standard error of their difference, in points."""

    before: float
    after: float
    error: float

    @property
    def points(self) -> float:
        """After minus before."""
        return self.after - self.before


def difference_text(points: float, error: float) -> str:
    """A difference with its 95 % interval: "+4.2 points, 95 %: −1.9 to +10.3"."""
    low, high = points - BEYOND_CHANCE * error, points + BEYOND_CHANCE * error
    between = f"{number(low, signed=True)} to {number(high, signed=True)}"
    return f"{number(points, signed=True)} points, 95\u00a0%: {between}"


def paired_difference(
    target: NDArray[np.int64], before: NDArray[np.bool_], after: NDArray[np.bool_], weights: NDArray[np.float64]
) -> PairedDifference:
    """The difference of two models on the same images [N].

    Args:
        target: the classes of the images.
        before: which of them one model classifies correctly.
        after: which of them the other does.
        weights: what each counts.
    """
    images, changed = np.bincount(target), np.bincount(target, weights=before != after)
    chance = (changed + (changed.sum() + 1) / (len(target) + 1)) / (images + 1)
    variance = np.square(weights) @ chance[target]
    return PairedDifference(100 * float(weights @ before), 100 * float(weights @ after), 100 * float(np.sqrt(variance)))


def image_weights(target: NDArray[np.int64], counts: ArrayLike, objective: SelectionObjective) -> NDArray[np.float64]:
    """The weight of each image [N] in the figure of an objective; they sum to 1.

    Args:
        target: the classes of the images.
        counts: training images per class, which define the few-shot classes.
        objective: "balanced": classes alike; "overall": images alike; "few": the few-shot classes alike.

    Raises:
        UsageError: no image counts.
    """
    if objective == "overall":
        return np.full(len(target), 1 / max(len(target), 1))
    images = np.bincount(target)
    counted = images > 0
    if objective == "few":
        counted &= np.isin(np.arange(len(images)), few_shot_classes(counts))
        if not counted.any():
            raise UsageError(
                "--objective few compares models on held-out images of classes with fewer than 20 training images, "
                "and none is held out; use --objective balanced"
            )
    return _classes_alike(target, images, counted)


def group_weights(target: NDArray[np.int64], counts: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """The weight of each image [N] in the accuracy of each shot group that has images: its classes count alike.

    Args:
        target: the classes of the images.
        counts: training images per class, which define the groups.
    """
    images = np.bincount(target)
    counted = {
        name: (images > 0) & np.isin(np.arange(len(images)), members) for name, members in shot_groups(counts).items()
    }
    return {name: _classes_alike(target, images, classes) for name, classes in counted.items() if classes.any()}


def _classes_alike(
    target: NDArray[np.int64], images: NDArray[np.int64], counted: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The weight of each image if the counted classes count alike, given the images of each class; others have 0."""
    per_image = np.divide(1.0, images * counted.sum(), out=np.zeros(len(images)), where=counted)
    weights: NDArray[np.float64] = per_image[target]
    return weights


def few_shot_classes(counts: ArrayLike) -> NDArray[np.int64]:
    """The classes with fewer than 20 training images; an error with the way out if there are none."""
    few = shot_groups(counts)["few"]
    if not len(few):
        raise UsageError(
            "--objective few needs classes with fewer than 20 training images, and the smallest has "
            f"{int(np.asarray(counts).min()):,}; use --objective balanced"
        )
    return few
