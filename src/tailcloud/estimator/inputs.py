"""Images and labels from Python: arrays or paths, and labels of any kind."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from tailcloud.data import Dataset, ReadOptions
from tailcloud.data.dataset import Labels
from tailcloud.data.image_io import Pixels
from tailcloud.data.memory import check_images_fit
from tailcloud.data.readers.build_dataset import assemble, read_files
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.image_size import choose_size
from tailcloud.data.readers.npz import resize_images, to_uint8
from tailcloud.data.readers.split_assignment import assign_splits
from tailcloud.errors import TailcloudWarning, UsageError
from tailcloud.formatting import readable

SPEC = "memory:/images"  # the name of images from Python in a recipe
ONLY_FOR_FOLDERS = ("test", "group", "min_count", "small")  # fields of ReadOptions

ArraysOrPaths = Pixels | list[Path]


def as_images(images: Any) -> ArraysOrPaths:
    """Paths as a list; arrays [N, H, W] or [N, H, W, 1 or 3] of uint8, uint16 or floats from 0 to 1 as uint8 images."""
    if isinstance(images, str | os.PathLike):
        raise UsageError(f'X is the path "{os.fspath(images)}"; give a list of paths, or arrays')
    if is_paths(images):
        return [Path(path) for path in images]
    try:
        values = np.asarray(images)
    except ValueError:  # rows of different shapes
        raise UsageError("X has images of different sizes; resize them to one size, or give their paths") from None
    shape = values.shape
    if len(shape) not in {3, 4} or shape[3:] not in {(), (1,), (3,)} or 0 in shape:
        rows = "; make images of rows first, as in X.reshape(len(X), height, width)" if len(shape) == 2 else ""
        raise UsageError(f"X has the shape {shape}; images are [N, H, W] or [N, H, W, 1 or 3]{rows}")
    if values.dtype.kind != "f" and values.dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
        raise UsageError(f"X has the type {values.dtype}; images are uint8, uint16, or floats from 0 to 1")
    return to_uint8("X", values).reshape(*shape[:3], -1)


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
            "Unknown label type: y has objects that are not all text; make all labels text, or all numbers"
        )
    check_classification_targets(values)
    classes, positions = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise UsageError(f"y has one class only, {classes[0]}; a classifier needs two")
    return classes, positions.astype(np.int64)


@dataclass(frozen=True)
class InMemory:
    """Labelled images from Python, which can be read at any size.

    The data set that it opens has no test split: ``test`` is the training split.
    """

    images: ArraysOrPaths
    labels: Labels
    classes: NDArray[Any]

    spec = SPEC
    resizable = True

    def open(self, options: ReadOptions) -> Dataset:
        """The data set, its images at the size of ``options``, or at one that suits them."""
        for name in ONLY_FOR_FOLDERS:
            if getattr(options, name) != getattr(ReadOptions(), name):
                raise UsageError(f"data.{name} is for a folder or a list of images, as in fit(FOLDER); leave it out")
        options = replace(options, test=0.0)  # ``fit`` holds images out itself
        read = self._read_paths if isinstance(self.images, list) else self._read_arrays
        dataset = read(options)
        counts = np.zeros(len(self.classes), np.int64)
        counts[np.array(dataset.class_names, np.int64)] = np.bincount(dataset.train.labels, minlength=dataset.classes)
        names = [readable(str(each)) for each in self.classes]
        if not counts.all():
            name = names[int(counts.argmin())]
            raise UsageError(f'no image of the class "{name}" can be read; repair one, or remove the class')
        return replace(dataset, spec=self.spec, class_names=names)

    def _read_paths(self, options: ReadOptions) -> Dataset:
        """The files, read as those of a folder are; files that cannot be read are named in a warning."""
        files, labels = [str(path) for path in self.images], self._class_numbers()
        names = [readable(file) for file in files]
        read = read_files("X", FileList(files, names, labels, [""] * len(files)), options)
        for remark in read.unreadable:
            warnings.warn(remark, TailcloudWarning, stacklevel=2)
        assert read.dataset is not None  # problems are raised
        return read.dataset

    def _read_arrays(self, options: ReadOptions) -> Dataset:
        images = np.asarray(self.images)
        height, width = images.shape[1:3]
        size, remarks = choose_size([(height, width)], options)
        check_images_fit("X", len(images), size, images.shape[3])
        assignment = assign_splits("X", self._class_numbers(), [""] * len(images), None, options)
        resized = np.ascontiguousarray(resize_images(images, (size, size), options.fit))
        return assemble(assignment, resized, None, options.fit, remarks, [(height, width)])

    def _class_numbers(self) -> list[str]:
        """The class of each image by its number, because two classes may have the same readable name."""
        return [str(label) for label in self.labels.tolist()]
