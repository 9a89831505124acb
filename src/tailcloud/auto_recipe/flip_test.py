"""May images be mirrored? Asked of the images themselves: do their classes recognise mirrored ones as well?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.data import Split
from tailcloud.data.dataset import Images

LOOKED_AT = 4000  # images
SIDE = 16  # pixels that an image is averaged to
LOSS = 0.1  # a smaller share of the recognised images lost is no reason against mirroring


@dataclass(frozen=True)
class Mirrored:
    """How many of some images the class means of others recognise: as they are, mirrored, one of both alone."""

    images: int
    classes: int
    plain: int
    mirrored: int
    differing: int

    @property
    def telling(self) -> bool:
        """Whether class means recognise anything at all: twice what guessing would."""
        return self.plain * self.classes >= 2 * self.images > 0

    @property
    def lost(self) -> bool:
        """Whether mirrored images are recognised less: by a tenth, and by more than three deviations of chance."""
        loss = self.plain - self.mirrored
        return self.telling and loss > LOSS * self.plain and loss > 3 * self.differing**0.5


def compare_mirrored(split: Split) -> Mirrored:
    """Class means of one half of the images judge the other half, plain and mirrored, and the other way round."""
    images, order = split.some(np.random.RandomState(0).permutation(len(split))[:LOOKED_AT])
    labels = split.labels[order]
    small, flipped = (averaged(pictures) for pictures in (images, images[:, :, ::-1]))
    counts = np.bincount(labels)
    kept = np.flatnonzero(counts[labels] >= 2)
    classes, labels = np.unique(labels[kept], return_inverse=True)
    halves = half_of_each(labels)
    right, right_mirrored = np.zeros(len(kept), bool), np.zeros(len(kept), bool)
    for half in (0, 1) if len(kept) else ():
        means = class_means(small[kept], labels, len(classes), halves == half)
        judged = halves != half
        right[judged] = nearest(small[kept][judged], means) == labels[judged]
        right_mirrored[judged] = nearest(flipped[kept][judged], means) == labels[judged]
    return Mirrored(
        len(kept), len(classes), int(right.sum()), int(right_mirrored.sum()), int((right != right_mirrored).sum())
    )


def averaged(images: Images) -> NDArray[np.float64]:
    """Images as rows of numbers: means of square blocks, about ``SIDE`` of them a side, cut alike left and right."""
    height, width = images.shape[1:3]
    block = max(1, min(height, width) // SIDE)
    top, left = (height % block) // 2, (width % block) // 2
    rows, columns = height // block, width // block
    cut = images[:, top : top + rows * block, left : left + columns * block].astype(np.float64)
    blocks = cut.reshape(len(images), rows, block, columns, block, -1)
    rows_of_numbers: NDArray[np.float64] = blocks.mean(axis=(2, 4)).reshape(len(images), -1)
    return rows_of_numbers


def half_of_each(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 and 1 in turn within each class."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    halves = np.empty(len(labels), np.int64)
    halves[order] = (np.arange(len(labels)) - starts) % 2
    return halves


def class_means(
    rows: NDArray[np.float64], labels: NDArray[np.int64], classes: int, among: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The mean of the rows ``among`` all that belong to each class."""
    sums = np.zeros((classes, rows.shape[1]))
    np.add.at(sums, labels[among], rows[among])
    return sums / np.bincount(labels[among], minlength=classes)[:, None]


def nearest(rows: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class whose mean is nearest to each row."""
    distances = (means**2).sum(axis=1) - 2 * rows @ means.T
    classes: NDArray[np.int64] = distances.argmin(axis=1)
    return classes
