"""Temperature scaling (Guo et al., ICML 2017): one number that makes confidences as large as they deserve.

p = softmax(z / T + log π − log π_a),   T minimises −Σ log p_y over images that were not trained on

z are the logits, π_a is the prior that they assume, and π the mix of classes of those images: held-out images of a
long-tailed data set are long-tailed too, and the temperature must not make up for that.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcloud.evaluation.metrics import Predictions, calibration
from tailcloud.profile import shot_groups

Floats = NDArray[np.float64]

COLDEST, HOTTEST = 0.1, 10.0
HALVINGS = 40
FEWEST = 20  # images; from fewer a temperature would be chance


def fit_temperature(logits: Floats, target: NDArray[np.int64], shift: Floats | None = None) -> float:
    """The T within [0.1, 10] that minimises the mean of −log softmax(z / T + shift)_y; 1 if T does not matter.

    ``logits`` is [images, classes], ``target`` [images], ``shift`` [classes]. In 1 / T that mean is convex: its slope
    grows, and T is where the slope crosses zero. Images whose logits are no numbers have no part in it.
    """
    logits, target = that_are_numbers(logits, target)
    if not logits.any():  # also where no image is left
        return 1.0
    low, high = np.log(1 / HOTTEST), np.log(1 / COLDEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _slope(logits, target, shift, float(np.exp(middle))) > 0:
            high = middle
        else:
            low = middle
    return float(np.exp(-(low + high) / 2))


def that_are_numbers(logits: Floats, target: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """The images whose logits are numbers, these lowered so that the largest of each image is 0; and their classes."""
    known = np.isfinite(logits).all(axis=1)
    some = logits[known]
    return some - some.max(axis=1, keepdims=True), target[known]


def _slope(logits: Floats, target: NDArray[np.int64], shift: Floats | None, inverse: float) -> float:
    """The mean of Σ_j p_j·z_j − z_y, which is the slope in 1 / T."""
    scores = inverse * logits + (0.0 if shift is None else shift)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights * logits).sum(axis=1) / weights.sum(axis=1)
    return float((expected - logits[np.arange(len(target)), target]).mean())


def calibration_by_group(predictions: Predictions, counts: list[int]) -> dict[str, dict[str, Any] | None]:
    """ECE and reliability over the images of the classes of each shot group; None for a group without images."""
    found: dict[str, dict[str, Any] | None] = {}
    for name, members in shot_groups(counts).items():
        inside = np.isin(predictions.target, members)
        right = predictions.predicted[inside] == predictions.target[inside]
        found[name] = calibration(predictions.confidence[inside], right) if inside.any() else None
    return found
