"""Adapters in float64, token by token."""

import numpy as np


def lora(x, down, up, alpha):
    """(α / r) · B (A x) for tokens [..., inputs]."""
    rank = len(down)
    result = np.zeros((*x.shape[:-1], len(up)))
    for place in np.ndindex(*x.shape[:-1]):
        inner = [sum(a * b for a, b in zip(row, x[place], strict=True)) for row in down]
        result[place] = [alpha / rank * sum(a * b for a, b in zip(row, inner, strict=True)) for row in up]
    return result


def adaptformer(x, norm, down, up, scale, epsilon=1e-5):
    """s · (U max(0, D LN(x) + d) + u); each layer is (weight, bias)."""
    result = np.zeros_like(x)
    for place in np.ndindex(*x.shape[:-1]):
        token = x[place]
        centred = token - token.mean()
        normed = centred / np.sqrt((centred**2).mean() + epsilon) * norm[0] + norm[1]
        inner = [max(0.0, float(row @ normed + bias)) for row, bias in zip(*down, strict=True)]
        result[place] = [scale * (row @ np.array(inner) + bias) for row, bias in zip(*up, strict=True)]
    return result
