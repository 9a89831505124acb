"""Sets of image files that are the same or nearly so."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.packed_names import Names
from tailcloud.data.parallel_io import read_images
from tailcloud.data.splits import Vector

COMPARED_SIDE = 32  # pixels; not those of the recipe, so that the split does not change with its size


def duplicate_groups(paths: Sequence[Path]) -> Vector:
    """For each file the first one that is connected to it by copies: its own number if there is none."""
    from tailcloud.data.inspection.duplicates import find_duplicates  # its room surveys data sets, which needs readers

    files = FileImages(Path(), Names.of(map(os.fspath, paths)), COMPARED_SIDE, "squash")
    images, broken = read_images(files)
    rows = np.setdiff1d(np.arange(len(paths)), list(broken))
    first = np.arange(len(paths))
    first[rows] = rows[find_duplicates([_in_grey(images[rows])]).sets(len(rows))]
    return first


def _in_grey(images: Pixels) -> Pixels:
    """One channel if all images are grey: such images differ less, and are compared more strictly."""
    grey = all(np.array_equal(image[..., :1], image[..., c : c + 1]) for image in images for c in (1, 2))
    return images[..., :1] if grey else images
