"""|∂L/∂z_y| of one sample, written out by hand in float64."""

import math

from helpers.oracles.clouds import cloud_sizes, log_softmax_at


def cross_entropy(logits, y):
    return 1 - math.exp(log_softmax_at(logits, y))


def gcl(cosine, y, epsilon, counts, *, scale, noise, margin, focal, strategy="log"):
    """A cloud moves a logit and does not stretch it; no gradient flows through the focal factor."""
    sizes = cloud_sizes(counts, strategy)
    z = [scale * (c - noise * sizes[j] * epsilon[j] - (margin if j == y else 0)) for j, c in enumerate(cosine)]
    left = cross_entropy(z, y)
    return left**focal * left
