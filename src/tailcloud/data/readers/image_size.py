"""To what size images are brought where nobody says, and what is lost on the way."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.read_options import ReadOptions

SMALLEST, LARGEST_BY_ITSELF = 4, 64  # pixels a side
NARROW = 0.5  # an image whose shorter side is a smaller share of the longer one loses more than half of itself


def chosen_size(sides: Sequence[tuple[int, int]], reading: ReadOptions) -> tuple[int, list[str]]:
    """Pixels a side: ``reading.size``, or the median of the images' shorter sides, at least 4 and at most 64.

    ``sides`` are the height and the width of images, in either order. With a remark where the median is larger than
    that, since then details are lost that could be had, and one where most of a typical image is cut off.
    """
    shorter = np.min(sides, axis=1)
    cut = list(_cut_off(shorter / np.max(sides, axis=1), reading))
    if reading.size is not None:
        return reading.size, cut
    median = int(np.median(shorter))
    size = min(max(median, SMALLEST), LARGEST_BY_ITSELF)
    remark = f"Images are read at {size}×{size} pixels, and half of them have {median:,} or more: see data.size."
    return size, [*cut, remark] if median > size else cut


def _cut_off(shares: NDArray[np.float64], reading: ReadOptions) -> Iterator[str]:
    """What a square in the middle leaves of images, whose shorter sides are such shares of the longer ones."""
    share = float(np.median(shares))
    if reading.fit == "crop" and share < NARROW:
        yield (
            f"Images are far from square, and only the square in the middle is read, {share:.0%} of a typical one; "
            "--set data.fit=pad or --set data.fit=squash reads the whole."
        )
