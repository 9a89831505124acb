"""``Dataset``: labelled images in splits, class names, and the statistics that normalize the images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages, UndecodedImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.parallel_io import read_images
from tailcloud.data.read_options import Fit
from tailcloud.data.splits import limit_remark, limited_positions, set_aside
from tailcloud.errors import TailcloudError
from tailcloud.profile import Profile, classes_text, fingerprint

Labels = NDArray[np.int64]

SMALLEST_TO_SHARE = 4  # a class with fewer images gives none to validation


@dataclass(frozen=True)
class Split:
    """One split of a data set: ``images`` [N, H, W, C] as uint8, or as files that are read when needed; ``labels`` [N].

    Your own images may also have ``groups`` [N], numbers of images that stay in one split, and ``names`` [N], their
    files.
    """

    images: Pixels | FileImages
    labels: Labels
    groups: Labels | None = None
    names: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def streamed(self) -> bool:
        """Whether the images stay in their files and are read when they are needed."""
        return isinstance(self.images, FileImages) and not isinstance(self.images, UndecodedImages)

    @property
    def pixels(self) -> Pixels:
        """The images as an array; an error if they stay in their files."""
        if isinstance(self.images, FileImages):
            raise TailcloudError(f"{len(self):,} images stay in their files, and this needs all of them in memory")
        return self.images

    def some(self, positions: NDArray[np.int64]) -> tuple[Pixels, NDArray[np.int64]]:
        """The pixels of some images, and their positions; images whose files cannot be read are left out."""
        if isinstance(self.images, FileImages):
            pixels, broken = read_images(self.images[positions])
            kept = np.delete(np.arange(len(positions)), list(broken))
            return pixels[kept], positions[kept]
        return self.images[positions], positions

    def take(self, positions: NDArray[np.int64]) -> "Split":
        """The images at these positions."""
        groups = None if self.groups is None else self.groups[positions]
        names = None if self.names is None else self.names[positions]
        return Split(self.images[positions], self.labels[positions], groups, names)


@dataclass(frozen=True)
class Dataset:
    """Training, test and perhaps validation images; ``mean`` and ``std`` per channel, on a 0 … 1 scale.

    ``fit`` says how an image of another size is resized, and ``keep`` which share of its center is kept before, as for
    the test images. ``native_side`` is the median of the shorter sides of the images before they were resized, in
    pixels, and ``native_ratio`` that of shorter over longer sides; None if they are not known. ``class_sizes`` are the
    training images of each class before ``data.max_count`` left some out; None if it did not.
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
    keep: float = 1.0
    native_side: int | None = None
    native_ratio: float | None = None
    class_sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name, split in {"training": self.train, "test": self.test}.items():
            _check(self.spec, name, split, len(self.class_names))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image as a model sees it."""
        height, width, channels = self.test.images.shape[1:]
        return height, width, channels

    @property
    def classes(self) -> int:
        """The number of classes, absent ones included."""
        return len(self.class_names)

    @cached_property
    def profile(self) -> Profile:
        """The class counts of the training split and what follows from them."""
        return Profile(np.bincount(self.train.labels, minlength=self.classes), self.class_names)

    @property
    def count_remarks(self) -> list[str]:
        """Remarks on the number of training images of each class."""
        return self.profile.remarks(limited=self.class_sizes is not None)

    @property
    def frequencies(self) -> list[int]:
        """How frequent the classes are: training images, those that ``data.max_count`` left out included."""
        return list(self.class_sizes or self.profile.counts.tolist())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every image and label: two runs with the same one saw the same data.

        For images that stay in their files it is computed from their names; none is opened.
        """
        splits = [self.train, self.test, *([self.val] if self.val else [])]
        return fingerprint(*(array for split in splits for array in (_hashed_bytes(split.images), split.labels)))


def _hashed_bytes(images: Pixels | FileImages) -> NDArray[np.uint8]:
    if not isinstance(images, FileImages):
        return images
    return np.frombuffer(f"{images.names.digest()} {images.shape} {images.fit} {images.keep}".encode(), np.uint8)


def _check(spec: str, name: str, split: Split, classes: int) -> None:
    if not len(split):
        raise TailcloudError(f"{spec} has no {name} images")
    if len(split.images) != len(split.labels):
        raise TailcloudError(f"{spec} has {len(split.images)} {name} images but {len(split.labels)} labels")
    low, high = int(split.labels.min()), int(split.labels.max())
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise TailcloudError(
            f"{spec} has the {name} label {wrong}, but its {classes} classes are numbered 0 to {classes - 1}"
        )


def channel_statistics(images: Pixels) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel on a 0 … 1 scale (a constant channel gets 1, not 0)."""
    levels = np.arange(256) / 255
    shares = [_histogram(images[..., channel]) / images[..., 0].size for channel in range(images.shape[-1])]
    mean = [float(share @ levels) for share in shares]
    std = [float(np.sqrt(share @ (levels - middle) ** 2)) for share, middle in zip(shares, mean, strict=True)]
    return mean, [value or 1.0 for value in std]


def _histogram(values: Pixels) -> NDArray[np.int64]:
    """How often each of the 256 levels occurs.

    In steps, because NumPy needs eight times the memory to count; and two values at a time, which is four times faster.
    """
    step = max(1, 2**22 // max(1, values[0].size))
    pairs, single = np.zeros(256**2, np.int64), np.zeros(256, np.int64)
    for start in range(0, len(values), step):
        flat = np.ascontiguousarray(values[start : start + step]).reshape(-1)
        even = len(flat) // 2 * 2
        pairs += np.bincount(flat[:even].view(np.uint16), minlength=256**2)
        single += np.bincount(flat[even:], minlength=256)
    counts: NDArray[np.int64] = single + pairs.reshape(256, 256).sum(axis=0) + pairs.reshape(256, 256).sum(axis=1)
    return counts


def limit_classes(dataset: Dataset, most: int) -> Dataset:
    """At most ``most`` training images of each class, as if the data had been read with ``data.max_count``."""
    kept = limited_positions(dataset.train.labels, dataset.classes, most)
    train = dataset.train.take(kept)
    mean, std = channel_statistics(train.pixels)
    remark = limit_remark(dataset.profile.counts, most)
    test = train if dataset.test is dataset.train else dataset.test
    limited = replace(dataset, train=train, test=test, mean=mean, std=std, remarks=(*dataset.remarks, *remark))
    return replace(limited, class_sizes=tuple(dataset.frequencies)) if remark else limited


def hold_out(dataset: Dataset, share: float) -> Dataset:
    """Move a share of the training images to ``val``, class by class; the same images for every seed.

    A class of n ≥ 4 images gives max(1, round(share · n)); a smaller one gives none, and a remark names it. Groups stay
    together, as ``set_aside`` says. Data that have a validation split stay as they are.
    """
    if not share or dataset.val:
        return dataset
    train = dataset.train
    held = set_aside(train.labels, dataset.classes, share, SMALLEST_TO_SHARE, train.groups)
    small = np.flatnonzero(np.bincount(train.labels[held], minlength=dataset.classes) == 0).tolist()
    few = "too few images" if train.groups is None else "too few images or groups"
    remark = f"{classes_text(small, dataset.class_names)}: {few} to hold any out for validation."
    split = replace(
        dataset,
        train=dataset.train.take(np.flatnonzero(~held)),
        val=dataset.train.take(np.flatnonzero(held)),
        remarks=(*dataset.remarks, *([remark] if small else [])),
    )
    before, after = ([len(group) for group in one.profile.groups.values()] for one in (dataset, split))
    if before == after:
        return split
    groups = " / ".join(map(str, before)), " / ".join(map(str, after))
    moved = (
        "Shot groups are of the images that are left for training: many / medium / few have "
        f"{groups[1]} classes instead of {groups[0]}."
    )
    return replace(split, remarks=(*split.remarks, moved))
