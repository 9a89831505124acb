"""Temperature and logit bias: two numbers, fitted together on held-out images.

p = softmax(z / T + τ·t_j + shift_j),   (1 / T, τ) minimise −Σ log p_y over held-out images

t is the direction of the bias, such as the log of the class counts. The mean of −log p_y is convex in (1 / T, τ), so a
local minimiser with bounds (SciPy's L-BFGS-B) finds its minimum.
"""

import numpy as np
from numpy.typing import NDArray

from tailcloud.calibration.temperature import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Floats,
    finite_logits,
    fit_temperature,
)

MAX_TAU = 2.0  # τ lies within ± this
BOUNDS = [(1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE), (-MAX_TAU, MAX_TAU)]
SOLVER_OPTIONS = {"ftol": 0.0, "gtol": 1e-14, "maxiter": 500}  # stop only at rounding errors


def fit_temperature_and_bias(
    logits: Floats, target: NDArray[np.int64], direction: Floats, shift: Floats | None = None
) -> tuple[float, float]:
    """The T within [0.1, 10] and the τ within [−2, 2] that minimise the mean of −log softmax(z / T + τ·t + shift)_y.

    ``logits`` is [images, classes], ``target`` [images], ``direction`` (t) and ``shift`` are [classes]; ``shift`` is −∞
    for a class that no image has. T is 1, or τ is 0, if it has no effect. Images with logits that are not finite are
    left out.
    """
    from scipy.optimize import minimize  # its import takes 0.2 s

    logits, target = finite_logits(logits, target)
    if not len(logits):
        return 1.0, 0.0
    fixed = np.zeros_like(direction) if shift is None else shift
    data = logits, target, direction, fixed
    fit = minimize(mean_nll, [1.0, 0.0], args=data, jac=True, bounds=BOUNDS, method="L-BFGS-B", options=SOLVER_OPTIONS)
    inverse, tau = fit.x
    return float(1 / inverse), float(tau)


def log_likelihood_gain(
    logits: Floats, target: NDArray[np.int64], direction: Floats, shift: Floats, temperature: float, tau: float
) -> float:
    """By how many nats (T, τ) makes all images together more likely than the best temperature with τ = 0."""
    alone = fit_temperature(logits, target, shift)
    logits, target = finite_logits(logits, target)
    if not len(logits):
        return 0.0
    points = np.array([1 / alone, 0.0]), np.array([1 / temperature, tau])
    without, with_bias = (mean_nll(point, logits, target, direction, shift)[0] for point in points)
    return len(target) * (without - with_bias)


def mean_nll(
    point: Floats, logits: Floats, target: NDArray[np.int64], direction: Floats, shift: Floats
) -> tuple[float, Floats]:
    """The mean of −log p_y at (1 / T, τ), and its gradient [2]: E_p[(z, t)] − (z_y, t_y), averaged over images."""
    inverse, tau = point
    scores = inverse * logits + (tau * direction + shift)
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    totals = weights.sum(axis=1)
    p, rows = weights / totals[:, None], np.arange(len(target))
    expected_logit, expected_direction = (p * logits).sum(axis=1), p @ direction
    nll = float((np.log(totals) - scores[rows, target]).mean())
    gradient = [(expected_logit - logits[rows, target]).mean(), (expected_direction - direction[target]).mean()]
    return nll, np.array(gradient)
