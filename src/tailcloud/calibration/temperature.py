"""Temperature scaling (Guo et al., ICML 2017): one number that corrects over- and underconfidence.

p = softmax(z / T + log π − log π_a),   T minimises −Σ log p_y over held-out images

z are the logits, π_a is the prior that they imply, and π the prior of the held-out images: held-out images of a
long-tailed data set are long-tailed too, and the temperature must not compensate for that.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcloud.calibration.priors import Prior
from tailcloud.evaluation.metrics import Predictions, calibration
from tailcloud.profile import shot_groups

Floats = NDArray[np.float64]

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.1, 10.0
BISECTIONS = 40


@dataclass(frozen=True)
class LogitCalibration:
    """``scale`` · outputs / ``temperature`` are calibrated logits, which imply the class prior ``prior``.

    ``fitted_on`` is the split that the temperature was fitted on; None if nothing was held out. ``images``
    is the number of its images; None if unknown.
    """

    scale: float
    temperature: float
    prior: Prior
    fitted_on: str | None = None
    images: int | None = 0

    @property
    def factor(self) -> float:
        """Outputs times this are calibrated logits."""
        return self.scale / self.temperature


def fit_temperature(logits: Floats, target: NDArray[np.int64], shift: Floats | None = None) -> float:
    """The T within [0.1, 10] that minimises the mean of −log softmax(z / T + shift)_y; 1 if T has no effect.

    ``logits`` is [images, classes], ``target`` [images], ``shift`` [classes]. The mean is convex in 1 / T, so its slope
    changes sign at most once. Images with logits that are not finite are left out. If the largest logit is right for
    every image, T is at least 1: without a mistake nothing says how sure the model may be, and the minimum is at 0.1.
    """
    logits, target = finite_logits(logits, target)
    if not logits.any():  # also if no image is left
        return 1.0
    # Bisection needs no case for a slope of one sign, as SciPy's root finders do: it then ends at a bound.
    low, high = np.log(1 / MAX_TEMPERATURE), np.log(1 / MIN_TEMPERATURE)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _slope(logits, target, shift, float(np.exp(middle))) > 0:
            high = middle
        else:
            low = middle
    best = float(np.exp(-(low + high) / 2))
    without_mistake = not logits[np.arange(len(target)), target].any()  # the largest logit is 0
    return max(1.0, best) if without_mistake else best


def finite_logits(logits: Floats, target: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
    """Logits and classes of the images whose logits are all finite; the largest logit of each image becomes 0."""
    finite = np.isfinite(logits).all(axis=1)
    kept = logits[finite]
    return kept - kept.max(axis=1, keepdims=True), target[finite]


def _slope(logits: Floats, target: NDArray[np.int64], shift: Floats | None, inverse: float) -> float:
    """The mean of Σ_j p_j·z_j − z_y, the derivative with respect to 1 / T."""
    scores = inverse * logits + (0.0 if shift is None else shift)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights * logits).sum(axis=1) / weights.sum(axis=1)
    return float((expected - logits[np.arange(len(target)), target]).mean())


def calibration_by_group(
    predictions: Predictions, counts: list[int], weights: Floats | None = None
) -> dict[str, dict[str, Any] | None]:
    """ECE and reliability bins for the images of each shot group; None for a group without images.

    ``weights`` [images] are those of ``calibration``.
    """
    groups: dict[str, dict[str, Any] | None] = {}
    for name, members in shot_groups(counts).items():
        inside = np.isin(predictions.target, members)
        correct = predictions.predicted[inside] == predictions.target[inside]
        weighted = None if weights is None else weights[inside]
        groups[name] = calibration(predictions.confidence[inside], correct, weighted) if inside.any() else None
    return groups
