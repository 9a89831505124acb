"""The size at which images are read if the recipe does not say, and a remark on what that loses."""

from collections.abc import Iterator, Sequence

import numpy as np

from tailcloud.data.read_options import SMALLEST_SIZE, ReadOptions

LARGEST_DEFAULT_SIZE = 64  # pixels a side
NARROW = 0.5  # of an image whose sides have a smaller ratio, a center crop loses more than half


def native_side(sides: Sequence[tuple[int, int]]) -> int:
    """The median of the images' shorter sides; ``sides`` are height and width, in either order."""
    return int(np.median(np.min(sides, axis=1)))


def native_ratio(sides: Sequence[tuple[int, int]]) -> float:
    """The median of shorter over longer sides, 1 for squares."""
    return float(np.median(np.min(sides, axis=1) / np.max(sides, axis=1)))


def choose_size(sides: Sequence[tuple[int, int]], options: ReadOptions) -> tuple[int, list[str]]:
    """Pixels a side: ``options.size``, or the median of the images' shorter sides, at least 4 and at most 64.

    ``sides`` are height and width of the images, in either order. Remarks say if the median is larger than 64, since
    then detail is lost, and if most of a typical image is cropped away.
    """
    cropped = list(_crop_remark(native_ratio(sides), options))
    if options.size is not None:
        return options.size, cropped
    median = native_side(sides)
    size = min(max(median, SMALLEST_SIZE), LARGEST_DEFAULT_SIZE)
    remark = (
        f"Images are read at {size}×{size} pixels, but half of them have {median:,} or more a side; "
        "data.size reads them larger."
    )
    return size, [*cropped, remark] if median > size else cropped


def _crop_remark(ratio: float, options: ReadOptions) -> Iterator[str]:
    """A remark if a center crop loses more than half of a typical image."""
    if options.fit == "crop" and ratio < NARROW:
        yield (
            f"Images are far from square: data.fit=crop reads only their center, {ratio:.0%} of a typical one; "
            "--set data.fit=pad or --set data.fit=squash reads the whole image."
        )
