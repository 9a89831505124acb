"""To what size images are brought where nobody says."""

from collections.abc import Sequence

import numpy as np

from tailcloud.data.reading import Reading

SMALLEST, LARGEST_BY_ITSELF = 4, 64  # pixels a side


def chosen_size(shorter_sides: Sequence[int], reading: Reading) -> tuple[int, list[str]]:
    """Pixels a side: ``reading.size``, or the median of the images' shorter sides, at least 4 and at most 64.

    With a remark where the median is larger than that, since then details are lost that could be had.
    """
    if reading.size is not None:
        return reading.size, []
    median = int(np.median(shorter_sides))
    size = min(max(median, SMALLEST), LARGEST_BY_ITSELF)
    remark = f"Images are read at {size}×{size} pixels, and half of them have {median:,} or more: see data.size."
    return size, [remark] if median > size else []
