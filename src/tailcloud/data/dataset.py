"""What a data set is: labelled images in parts, class names, and the normalisation that goes with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.reading import Fit
from tailcloud.errors import TailcloudError
from tailcloud.profile import Profile, class_order, classes_text, fingerprint

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

SMALLEST_TO_SHARE = 4  # a class with fewer images gives none to validation


@dataclass(frozen=True)
class Split:
    """One part of a data set: ``images`` [N, H, W, C] as uint8, and ``labels`` [N]."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: NDArray[np.int64]) -> "Split":
        """The images at these positions."""
        return Split(self.images[positions], self.labels[positions])


@dataclass(frozen=True)
class Dataset:
    """Training, test and perhaps validation images; ``mean`` and ``std`` per channel, on a 0 … 1 scale.

    ``fit`` says how an image of another size is brought to the size of these.
    """

    spec: str
    train: Split
    test: Split
    class_names: Sequence[str]
    mean: Sequence[float]
    std: Sequence[float]
    val: Split | None = None
    remarks: tuple[str, ...] = ()
    fit: Fit = "squash"

    def __post_init__(self) -> None:
        for name, part in {"training": self.train, "test": self.test}.items():
            _check(self.spec, name, part, len(self.class_names))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = self.train.images.shape[1:]
        return height, width, channels

    @property
    def classes(self) -> int:
        """The number of classes, absent ones included."""
        return len(self.class_names)

    @cached_property
    def profile(self) -> Profile:
        """The class counts of the training part and what follows from them."""
        return Profile(np.bincount(self.train.labels, minlength=self.classes), self.class_names)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every image and label: two runs with the same one saw the same data."""
        parts = [self.train, self.test, *([self.val] if self.val else [])]
        return fingerprint(*(array for part in parts for array in (part.images, part.labels)))


def _check(spec: str, name: str, part: Split, classes: int) -> None:
    if not len(part):
        raise TailcloudError(f"{spec} has no {name} image")
    if len(part.images) != len(part.labels):
        raise TailcloudError(f"{spec} has {len(part.images)} {name} images but {len(part.labels)} labels")
    low, high = int(part.labels.min()), int(part.labels.max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise TailcloudError(
            f"{spec} has the {name} label {wrong}, but its {classes} classes are numbered 0 to {classes - 1}"
        )


def channel_statistics(images: Images) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel on a 0 … 1 scale (a constant channel gets 1, not 0)."""
    pixels = images.reshape(-1, images.shape[-1]).astype(np.float64) / 255
    std = pixels.std(axis=0)
    return pixels.mean(axis=0).tolist(), np.where(std > 0, std, 1.0).tolist()


def hold_out(dataset: Dataset, share: float) -> Dataset:
    """Move a share of the training images to ``val``, class by class; the same images for every seed.

    A class of n ≥ 4 images gives max(1, round(share · n)); a smaller one gives none, and a remark names it.
    """
    if not share:
        return dataset
    random, labels = np.random.RandomState(0), dataset.train.labels
    held = np.zeros(len(labels), dtype=bool)
    for members in positions_by_class(labels, dataset.classes):
        random.shuffle(members)
        if len(members) >= SMALLEST_TO_SHARE:
            held[members[: max(1, round(share * len(members)))]] = True
    small = np.flatnonzero(dataset.profile.counts < SMALLEST_TO_SHARE).tolist()
    remark = f"{classes_text(small, dataset.class_names)}: too few images to give any to validation."
    parted = replace(
        dataset,
        train=dataset.train.take(np.flatnonzero(~held)),
        val=dataset.train.take(np.flatnonzero(held)),
        remarks=(*dataset.remarks, *([remark] if small else [])),
    )
    before, after = ([len(group) for group in one.profile.groups.values()] for one in (dataset, parted))
    if before == after:
        return parted
    groups = " / ".join(map(str, before)), " / ".join(map(str, after))
    moved = f"Shot groups follow the images that are left to train on: {groups[1]} classes instead of {groups[0]}."
    return replace(parted, remarks=(*parted.remarks, moved))


def positions_by_class(labels: Labels, classes: int) -> list[NDArray[np.int64]]:
    """For each class, where its images are, in ascending order."""
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    return np.split(class_order(labels, classes), ends[:-1])
