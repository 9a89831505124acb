"""Batch norm with ReLU6 or a shortcut, in float64, channel by channel; gradients by the whole Jacobian."""

import numpy as np


def statistics(x):
    """Mean and biased variance of each channel of x [pixels, channels]."""
    mean = np.array([sum(x[:, c]) / len(x) for c in range(x.shape[1])])
    return mean, np.array([sum((x[:, c] - mean[c]) ** 2) / len(x) for c in range(x.shape[1])])


def output(x, weight, bias, mean, variance, eps, *, relu6=False, shortcut=None):
    """y [pixels, channels]."""
    y = np.empty_like(x)
    for c in range(x.shape[1]):
        y[:, c] = weight[c] * (x[:, c] - mean[c]) / np.sqrt(variance[c] + eps) + bias[c]
    if relu6:
        y = np.clip(y, 0, 6)
    return y if shortcut is None else y + shortcut


def gradients(x, upstream, weight, bias, mean, variance, eps, *, moving, relu6=False):
    """Gradients of x, weight and bias; with ``moving``, mean and variance are those of x and depend on it."""
    by_x, by_weight, by_bias = np.empty_like(x), np.empty_like(weight), np.empty_like(bias)
    plain, pixels = output(x, weight, bias, mean, variance, eps), len(x)
    for c in range(x.shape[1]):
        sigma = np.sqrt(variance[c] + eps)
        unit, g = (x[:, c] - mean[c]) / sigma, upstream[:, c].copy()
        if relu6:
            g[(plain[:, c] <= 0) | (plain[:, c] >= 6)] = 0
        jacobian = np.eye(pixels)
        if moving:
            jacobian -= 1 / pixels + np.outer(unit, unit) / pixels
        by_x[:, c] = weight[c] / sigma * (jacobian @ g)
        by_weight[c], by_bias[c] = sum(g * unit), sum(g)
    return by_x, by_weight, by_bias


def moved(running, new, momentum):
    """A running statistic after a batch."""
    return (1 - momentum) * running + momentum * new
