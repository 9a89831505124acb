"""A user's data set of noise images, for tests of the automatic choice."""

from dataclasses import replace

import numpy as np

from tailcloud.data import Dataset, Split

RANDOM = np.random.RandomState(0)


def photos(counts, side=32, channels=3, val=0):
    """A user's data set, with noise images."""

    def part(labels):
        return Split(RANDOM.randint(0, 256, (len(labels), side, side, channels), np.uint8), labels.astype(np.int64))

    classes = np.arange(len(counts))
    return Dataset(
        spec="./photos",
        train=part(np.repeat(classes, counts)),
        test=part(np.repeat(classes, 3)),
        class_names=[f"class{c}" for c in classes],
        mean=[0.5] * channels,
        std=[0.3] * channels,
        val=part(np.repeat(classes, val)) if val else None,
    )


def photos_of_side(native, counts=(6, 3)):
    """As ``photos``, as if read from files whose shorter side has that many pixels; in memory they are smaller."""
    return replace(photos(counts, side=min(native, 40)), native_side=native)
