"""How far an accuracy may be off because it was measured on few test images."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tailcloud.formatting import number

Z_95 = 1.96  # two-sided 95 % quantile of a normal distribution


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
