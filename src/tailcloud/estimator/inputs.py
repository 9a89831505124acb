"""Images and labels as people have them in Python: arrays or paths, and labels of any kind."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from tailcloud.data import Dataset, ReadOptions, Split
from tailcloud.data.dataset import Images, Labels, channel_statistics
from tailcloud.data.image_io import Header, Unreadable
from tailcloud.data.memory import check_fits
from tailcloud.data.parallel_io import read_headers, read_pictures, unreadable_remark
from tailcloud.data.readers.image_size import chosen_size
from tailcloud.data.readers.npz import all_fitted, eight_bits
from tailcloud.errors import TailcloudWarning, UsageError
from tailcloud.formatting import readable

SPEC = "memory:/images"  # what a recipe calls images that came from Python
OF_FOLDERS = ("test", "group", "min_count", "small")

Pictures = Images | list[Path]


def pictures_of(images: Any) -> Pictures:
    """Paths as a list; arrays [N, H, W] or [N, H, W, 1 or 3] of uint8, uint16 or floats from 0 to 1 as uint8 images."""
    if isinstance(images, str | os.PathLike):
        raise UsageError(f'X is the path "{os.fspath(images)}"; give a list of paths, or arrays')
    if is_paths(images):
        return [Path(path) for path in images]
    try:
        values = np.asarray(images)
    except ValueError:  # rows of different shapes
        raise UsageError("X holds images of different sizes; bring them to one size, or give their paths") from None
    shape = values.shape
    if len(shape) not in {3, 4} or shape[3:] not in {(), (1,), (3,)} or 0 in shape:
        rows = "; make images of rows first, as in X.reshape(len(X), height, width)" if len(shape) == 2 else ""
        raise UsageError(f"X has the shape {shape}; images are [N, H, W] or [N, H, W, 1 or 3]{rows}")
    if values.dtype.kind != "f" and values.dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
        raise UsageError(f"X has the type {values.dtype}; images are uint8, uint16, or floats from 0 to 1")
    return eight_bits("X", values).reshape(*shape[:3], -1)


def is_paths(images: Any) -> bool:
    """Whether these are paths: a list, or an array of one dimension, of nothing but text and Path objects."""
    if getattr(images, "ndim", 1) != 1 or not isinstance(images, Iterable):
        return False
    kinds = {type(each) for each in images}
    return bool(kinds) and all(issubclass(kind, str | os.PathLike) for kind in kinds)


def encoded(labels: ArrayLike, images: int) -> tuple[NDArray[Any], Labels]:
    """The classes in order, and for each image the position of its class among them."""
    values = column_or_1d(labels, warn=True)
    if len(values) != images:
        raise UsageError(f"X has {images:,} images, and y has {len(values):,} labels")
    if values.dtype.kind == "O" and not all(isinstance(each, str) for each in values):
        raise UsageError(
            "Unknown label type: y holds objects that are not all text; make all labels text, or all numbers"
        )
    check_classification_targets(values)
    classes, positions = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise UsageError(f"y has one class only, {classes[0]}; a classifier needs two")
    return classes, positions.astype(np.int64)


@dataclass(frozen=True)
class InMemory:
    """Labelled images that somebody handed over, and that can be read at any size.

    The data set that it opens has no test part of its own: its training part stands there.
    """

    pictures: Pictures
    labels: Labels
    classes: NDArray[Any]

    spec = SPEC

    def open(self, reading: ReadOptions) -> Dataset:
        """The data set, its images at the size that ``reading`` says or that they suggest."""
        for name in OF_FOLDERS:
            if getattr(reading, name) != getattr(ReadOptions(), name):
                raise UsageError(f"data.{name} is for a folder or a list of images, as in fit(FOLDER); leave it out")
        if isinstance(self.pictures, list):
            return self._dataset(*self._files(self.pictures, reading), reading)
        height, width, channels = self.pictures.shape[1:]
        size, remarks = chosen_size([(height, width)], reading)
        check_fits(self.spec, len(self.labels), size, channels)
        return self._dataset(all_fitted(self.pictures, (size, size), reading.fit), self.labels, remarks, reading)

    def _files(self, paths: list[Path], reading: ReadOptions) -> tuple[Images, Labels, list[str]]:
        """The pixels of every file that can be read, and the labels of those; others are named in a warning."""
        names, headers = [readable(str(path)) for path in paths], read_headers(paths)
        broken = {at: header for at, header in enumerate(headers) if isinstance(header, Unreadable)}
        unreadable_remark("X", names, broken)
        good = [header for header in headers if isinstance(header, Header)]
        size, remarks = chosen_size([(header.height, header.width) for header in good], reading)
        channels = 1 if all(header.grey for header in good) else 3
        check_fits(self.spec, len(paths), size, channels)
        images, damaged = read_pictures(paths, channels, size, reading.fit)
        unread = unreadable_remark("X", names, damaged)
        for remark in unread:
            warnings.warn(remark, TailcloudWarning, stacklevel=2)
        kept = np.setdiff1d(np.arange(len(paths)), list(damaged))
        return images[kept], self.labels[kept], [*unread, *remarks]

    def _dataset(self, images: Images, labels: Labels, remarks: list[str], reading: ReadOptions) -> Dataset:
        lost = np.flatnonzero(np.bincount(labels, minlength=len(self.classes)) == 0)
        if len(lost):
            name = readable(str(self.classes[lost[0]]))
            raise UsageError(f'no image of the class "{name}" can be read; mend one, or take the class out')
        mean, std = channel_statistics(images)
        names = [readable(str(each)) for each in self.classes]
        train = Split(np.ascontiguousarray(images), labels)
        return Dataset(self.spec, train, train, names, mean, std, remarks=tuple(remarks), fit=reading.fit)
