"""How far an accuracy may be off because it was measured on few test images."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tailcloud.formatting import number

Z_95 = 1.96  # two-sided 95 % quantile of a normal distribution
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)  # of Student's t, with 1, 2, … degrees of freedom


class Interval(NamedTuple):
    """A 95 % confidence interval, in percent."""

    low: float
    high: float

    @property
    def text(self) -> str:
        """54.5 – 65.3, without line breaks."""
        return f"{number(self.low)}\u00a0–\u00a0{number(self.high)}"


def wilson_interval(percent: float, images: float) -> Interval:
    """The interval of an accuracy that was measured on so many images (Wilson, 1927): sensible also at 0 and 100 %."""
    share, z = percent / 100, Z_95
    scale = 1 / (1 + z**2 / images)
    centre = scale * (share + z**2 / (2 * images))
    half = scale * z * math.sqrt(share * (1 - share) / images + z**2 / (4 * images**2))
    return Interval(max(0.0, 100 * (centre - half)), min(100.0, 100 * (centre + half)))


def effective_images(test_counts: Sequence[int]) -> float:
    """How many images a mean over classes is worth, for ``wilson_interval``.

    The mean over K classes of n_k images has the variance p (1 − p) · Σ 1/n_k / K², which is that of K² / Σ 1/n_k
    images. Classes without images do not count; 0 if none has any.
    """
    tested = [count for count in test_counts if count]
    return len(tested) ** 2 / sum(1 / count for count in tested) if tested else 0.0


def beyond_chance(first: float, second: float, images: float) -> bool:
    """Whether two accuracies on so many test images differ by more than chance (two-sided, 95 %).

    The predictions of both are taken as independent. Those of two models on the same images agree more often than
    that, so a difference that passes here would also pass a paired test.
    """
    shares = first / 100, second / 100
    deviation = 100 * math.sqrt(sum(share * (1 - share) for share in shares) / images)
    return abs(first - second) > Z_95 * deviation


def beyond_seeds(difference: float, deviation: float, seeds: int) -> bool:
    """Whether a mean difference over so many seeds, with their sample deviation, is not 0 (t test, 95 %)."""
    quantile = T_95[min(seeds - 1, len(T_95)) - 1]
    return abs(difference) > quantile * deviation / math.sqrt(seeds)
