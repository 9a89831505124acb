"""Temperature and tilt: two numbers that bring the logits of a long-tailed model into line with held-out images.

p = softmax(z / T + τ·t_j + shift_j),   (1 / T, τ) minimise −Σ log p_y over images that were not trained on

t is the direction in which logits may lean, such as the log of the class counts. The mean of −log p_y is convex in
(1 / T, τ): Newton's steps, shortened where they would not help, end at its minimum.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.calibration.temperature import COLDEST, HOTTEST, Floats, fit_temperature, that_are_numbers

STEEPEST = 2.0  # τ is within ± this
LOW, HIGH = np.array([1 / HOTTEST, -STEEPEST]), np.array([1 / COLDEST, STEEPEST])
STEPS, HALVINGS = 100, 40
ROUNDING = 1e-15  # nats; a step that promises less would be judged by rounding alone
FLAT = 1e-12  # added to the curvature, which vanishes where nothing changes any more


@dataclass(frozen=True)
class Around:
    """The mean of −log p_y at a point (1 / T, τ), with its slope [2] and its curvature [2, 2] there."""

    loss: float
    slope: Floats
    curvature: Floats


def fit_tilt(
    logits: Floats, target: NDArray[np.int64], tilt: Floats, shift: Floats | None = None
) -> tuple[float, float]:
    """The T within [0.1, 10] and the τ within [−2, 2] that minimise the mean of −log softmax(z / T + τ·t + shift)_y.

    ``logits`` is [images, classes], ``target`` [images], ``tilt`` (which is t) and ``shift`` [classes], which is −∞ for
    a class that no image can be of. T is 1, and τ is 0, where it does not matter. Images whose logits are no numbers
    have no part in it.
    """
    logits, target = that_are_numbers(logits, target)
    point = np.array([1.0, 0.0])
    if not len(logits):
        return 1.0, 0.0
    fixed = np.zeros_like(tilt) if shift is None else shift
    here = around(point, logits, target, tilt, fixed)
    for _ in range(STEPS):
        step = newton_step(point, here)
        if -(step @ here.slope) < ROUNDING:
            break
        for _ in range(HALVINGS):
            other = np.clip(point + step, LOW, HIGH)
            there = around(other, logits, target, tilt, fixed)
            if there.loss < here.loss:
                break
            step = step / 2
        else:
            break
        point, here = other, there
    return float(1 / point[0]), float(point[1])


def gained(
    logits: Floats, target: NDArray[np.int64], tilt: Floats, shift: Floats, temperature: float, tau: float
) -> float:
    """By how many nats such a tilt makes all images together more likely than the best temperature does alone."""
    alone = fit_temperature(logits, target, shift)
    logits, target = that_are_numbers(logits, target)
    if not len(logits):
        return 0.0
    points = np.array([1 / alone, 0.0]), np.array([1 / temperature, tau])
    without, with_it = (around(point, logits, target, tilt, shift).loss for point in points)
    return len(target) * (without - with_it)


def newton_step(point: Floats, here: Around) -> Floats:
    """The way to the minimum of the parabola that fits here, not longer than the bounds are apart.

    A number at a bound that the slope would have pass it stays. Where the step alone would have it pass, cutting it off
    leaves a way down: with two numbers, the other one then goes down by more than the whole step does.
    """
    free = ~((point <= LOW) & (here.slope > 0) | (point >= HIGH) & (here.slope < 0))
    step, curvature = np.zeros_like(point), here.curvature[np.ix_(free, free)] + FLAT * np.eye(free.sum())
    step[free] = -np.linalg.solve(curvature, here.slope[free])
    return step / max(1.0, float(np.max(np.abs(step) / (HIGH - LOW))))


def around(point: Floats, logits: Floats, target: NDArray[np.int64], tilt: Floats, shift: Floats) -> Around:
    """The first moments of (z, t) under p are the slope, but for the true class; their covariance is the curvature."""
    inverse, tau = point
    scores = inverse * logits + (tau * tilt + shift)
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    totals = weights.sum(axis=1)
    p, rows = weights / totals[:, None], np.arange(len(target))
    weighed = p * logits
    z, t = weighed.sum(axis=1), p @ tilt
    across = (weighed @ tilt - z * t).mean()
    own = ((weighed * logits).sum(axis=1) - z**2).mean(), (p @ tilt**2 - t**2).mean()
    return Around(
        float((np.log(totals) - scores[rows, target]).mean()),
        np.array([(z - logits[rows, target]).mean(), (t - tilt[target]).mean()]),
        np.array([[own[0], across], [across, own[1]]]),
    )
