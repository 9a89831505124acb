"""The flip test: whether horizontal flips preserve the class, measured with nearest class means."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.data import Split
from tailcloud.data.image_io import Pixels

MAX_IMAGES, MIN_IMAGES = 2000, 500  # they are read from their files for this test
SIDE = 16  # pixels a side that images are averaged to
TOLERATED_LOSS = 0.1  # flips may cost this share of the hits


@dataclass(frozen=True)
class FlipTest:
    """How many of ``images`` the nearest class mean gets right: ``hits`` as they are, ``flipped_hits`` flipped.

    ``differing`` images are right in only one of the two ways.
    """

    images: int
    classes: int
    hits: int
    flipped_hits: int
    differing: int

    @property
    def informative(self) -> bool:
        """Whether class means find at least twice the hits of guessing."""
        return self.hits * self.classes >= 2 * self.images > 0

    @property
    def flips_hurt(self) -> bool:
        """Whether flips lose hits: more than a tenth of them, and more than three standard deviations."""
        loss = self.hits - self.flipped_hits
        return self.informative and loss > TOLERATED_LOSS * self.hits and loss > 3 * self.differing**0.5


def run_flip_test(split: Split, most: int | None = None) -> FlipTest:
    """Class means of one half of the images classify the other half, as it is and flipped, and the other way round.

    ``most`` images are read at most, if there is a time limit; but not fewer than ``MIN_IMAGES``.
    """
    count = MAX_IMAGES if most is None else min(MAX_IMAGES, max(MIN_IMAGES, most))
    images, order = split.some(np.random.RandomState(0).permutation(len(split))[:count])
    labels = split.labels[order]
    small, flipped = (block_means(each) for each in (images, images[:, :, ::-1]))
    counts = np.bincount(labels)
    kept = np.flatnonzero(counts[labels] >= 2)
    classes, labels = np.unique(labels[kept], return_inverse=True)
    halves = alternate_halves(labels)
    hit, flipped_hit = np.zeros(len(kept), bool), np.zeros(len(kept), bool)
    for half in (0, 1) if len(kept) else ():
        means = class_means(small[kept], labels, len(classes), halves == half)
        rest = halves != half
        hit[rest] = nearest(small[kept][rest], means) == labels[rest]
        flipped_hit[rest] = nearest(flipped[kept][rest], means) == labels[rest]
    return FlipTest(len(kept), len(classes), int(hit.sum()), int(flipped_hit.sum()), int((hit != flipped_hit).sum()))


def block_means(images: Pixels) -> NDArray[np.float64]:
    """Images as vectors: the means of square blocks, about ``SIDE`` of them a side, cropped equally left and right."""
    height, width = images.shape[1:3]
    block = max(1, min(height, width) // SIDE)
    top, left = (height % block) // 2, (width % block) // 2
    rows, columns = height // block, width // block
    cut = images[:, top : top + rows * block, left : left + columns * block].astype(np.float64)
    blocks = cut.reshape(len(images), rows, block, columns, block, -1)
    vectors: NDArray[np.float64] = blocks.mean(axis=(2, 4)).reshape(len(images), -1)
    return vectors


def alternate_halves(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The half of each image: 0 and 1 in turn within each class."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    halves = np.empty(len(labels), np.int64)
    halves[order] = (np.arange(len(labels)) - starts) % 2
    return halves


def class_means(
    rows: NDArray[np.float64], labels: NDArray[np.int64], classes: int, among: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The mean of the rows of each class; only rows where ``among`` is true count."""
    sums = np.zeros((classes, rows.shape[1]))
    np.add.at(sums, labels[among], rows[among])
    return sums / np.bincount(labels[among], minlength=classes)[:, None]


def nearest(rows: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class whose mean is nearest to each row."""
    distances = (means**2).sum(axis=1) - 2 * rows @ means.T
    classes: NDArray[np.int64] = distances.argmin(axis=1)
    return classes
