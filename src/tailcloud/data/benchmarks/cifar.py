"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), complete or long-tailed, from the official python or binary files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest, md5
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.benchmarks.cifar_files import CIFAR_EDITIONS, FINGERPRINTS, CifarEdition, Layout
from tailcloud.data.benchmarks.safe_pickle import load_pickle
from tailcloud.data.dataset import Dataset, Labels, Split
from tailcloud.data.image_io import Pixels
from tailcloud.data.longtail import exponential_counts, longtail_positions
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.profile import classes_text

Name = Literal["cifar10", "cifar100"]
Rows = NDArray[np.uint8]  # [N, 3072]: 1024 red, 1024 green and 1024 blue values an image

TRAIN_IMAGES, TEST_IMAGES, PIXELS = 50_000, 10_000, 3072
TUNE = "-tune"  # ends the name of data for choosing settings
FOR_TUNING = "This data set is for choosing settings: its test split has training images, and is imbalanced."
LARGEST_SUBSET = 50  # the smallest γ of the benchmarks
# Of the training images of CIFAR-10; the field uses them for CIFAR-100 too.
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


@dataclass(frozen=True)
class CifarCopy:
    """The files of one layout on this machine, and what to do if they are wrong."""

    edition: CifarEdition
    layout: Layout
    folder: Path
    remedy: str

    def missing(self) -> list[str]:
        """The files that are not there."""
        return [file for file in self.layout.files if not (self.folder / file).is_file()]

    def changed(self) -> list[str]:
        """The files that exist, but differ from the published ones."""
        present = set(self.layout.files) - set(self.missing())
        sums = {file: expected for file, expected in self.layout.sums.items() if expected and file in present}
        return [file for file, expected in sums.items() if md5_sum(self.folder / file) != expected]

    def is_published(self) -> bool:
        """Whether every file is there, and as published."""
        return not self.missing() and not self.changed()

    def class_names(self) -> list[str]:
        """The names of the classes, in the order of the labels."""
        path, key = self.folder / self.layout.files[-1], f"{self.edition.granularity}label_names"
        names: Any = _bytes(path).split() if self.layout.binary else load_pickle(path, remedy=self.remedy).get(key)
        if not isinstance(names, list) or len(names) != self.edition.classes:
            raise self.damaged(path, f"it does not have the names of {self.edition.classes} classes")
        return [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names]

    def split(self, files: list[str], images: int) -> tuple["FileRows", Labels]:
        """The images and labels of some files together; every class must have the same number of images."""
        parts = [self._read(self.folder / file, images // len(files)) for file in files]
        labels, share = np.concatenate([labels for _, labels in parts]), images // self.edition.classes
        wrong = np.flatnonzero(np.bincount(labels, minlength=self.edition.classes) != share).tolist()
        if wrong:
            text = classes_text(wrong, self.class_names())
            raise self.damaged(self.folder, f"{text} should have {share:,} images in {' + '.join(files)}")
        return FileRows([rows for rows, _ in parts]), labels

    def damaged(self, path: Path, why: str) -> TailcloudError:
        """The error for a file that is not what it should be."""
        return TailcloudError(f"{path} is damaged: {why}; {self.remedy}")

    def _read(self, path: Path, images: int) -> tuple[Rows, Labels]:
        rows, labels = (self._read_binary if self.layout.binary else self._read_pickle)(path, images)
        low, high, classes = int(labels.min()), int(labels.max()), self.edition.classes
        if low < 0 or high >= classes:
            label = low if low < 0 else high
            raise self.damaged(path, f"it has the label {label}, but the classes are numbered 0 to {classes - 1}")
        return rows, labels

    def _read_binary(self, path: Path, images: int) -> tuple[Rows, Labels]:
        content, before = _bytes(path), self.edition.label_bytes
        if len(content) != images * (before + PIXELS):
            raise self.damaged(path, f"it has {len(content):,} bytes instead of {images * (before + PIXELS):,}")
        records = np.frombuffer(content, np.uint8).reshape(images, before + PIXELS)
        return records[:, before:], records[:, before - 1].astype(np.int64)

    def _read_pickle(self, path: Path, images: int) -> tuple[Rows, Labels]:
        content, key = load_pickle(path, remedy=self.remedy), f"{self.edition.granularity}labels"
        rows, labels = content.get("data"), content.get(key)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape != (images, PIXELS):
            raise self.damaged(path, f"it does not have {images:,} images of 32×32 pixels in three colors")
        if not isinstance(labels, list | np.ndarray) or len(labels) != images or not all(map(_is_label, labels)):
            raise self.damaged(path, f'it does not have {images:,} whole numbers as "{key}"')
        return rows, np.array([int(label) for label in labels], np.int64)


@dataclass(frozen=True)
class FileRows:
    """The images of several files as one, without a copy of all of them."""

    parts: Sequence[Rows]

    def images(self, positions: NDArray[np.int64]) -> Pixels:
        """Those at some positions, as [N, 32, 32, 3]."""
        images, start = np.empty((len(positions), 32, 32, 3), np.uint8), 0
        for rows in self.parts:
            here = np.flatnonzero((positions >= start) & (positions < start + len(rows)))
            images[here] = rows[positions[here] - start].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            start += len(rows)
        return images


def open_cifar(name: Name, ratio: float | None, root: Path) -> Dataset:
    """CIFAR-10 or CIFAR-100 with imbalance ratio γ, or complete and balanced if ``ratio`` is None.

    The long-tailed subset is the one that papers use: exponential counts, seed 0. A copy that differs from the
    published files is opened too; ``remarks`` say so.
    """
    spec, edition = name if ratio is None else f"{name}-lt:{ratio:g}", CIFAR_EDITIONS[name]
    counts = None if ratio is None else exponential_counts(TRAIN_IMAGES / edition.classes, edition.classes, ratio)
    copy = _complete_copy(name, spec, root)
    rows, labels = copy.split(copy.layout.files[:-2], TRAIN_IMAGES)
    positions = np.arange(len(labels)) if counts is None else longtail_positions(labels, counts)
    test_rows, test_labels = copy.split(copy.layout.files[-2:-1], TEST_IMAGES)
    dataset = Dataset(
        spec=spec,
        train=Split(rows.images(positions), labels[positions]),
        test=Split(test_rows.images(np.arange(len(test_labels))), test_labels),
        class_names=copy.class_names(),
        mean=MEAN,
        std=STD,
    )
    return replace(dataset, remarks=tuple(_remarks(dataset, copy)))


def open_cifar_for_tuning(name: Name, ratio: float | None, root: Path) -> Dataset:
    """A data set for choosing settings without the test set.

    Its training split has nine tenths of the training images at ratio γ. Its test split has the other images of the
    subset of γ = 50, at least a tenth of each class there; use the balanced accuracy.
    """
    assert ratio is not None  # a spec without one is refused
    spec, edition = f"{name}-lt{TUNE}:{ratio:g}", CIFAR_EDITIONS[name]
    if ratio < LARGEST_SUBSET:
        raise UsageError(
            f"{spec}: the imbalance ratio must be at least {LARGEST_SUBSET}; the tuning data are a subset of that"
        )
    full = TRAIN_IMAGES / edition.classes
    largest = exponential_counts(full, edition.classes, LARGEST_SUBSET)
    counts = [max(1, int(0.9 * count)) for count in exponential_counts(full, edition.classes, ratio)]
    copy = _complete_copy(name, spec, root)
    rows, labels = copy.split(copy.layout.files[:-2], TRAIN_IMAGES)
    picked = longtail_positions(labels, largest)
    place = np.concatenate([np.arange(count) for count in largest])  # within its class
    train, test = picked[place < np.repeat(counts, largest)], picked[place >= np.repeat(counts, largest)]
    dataset = Dataset(
        spec=spec,
        train=Split(rows.images(train), labels[train]),
        test=Split(rows.images(test), labels[test]),
        class_names=copy.class_names(),
        mean=MEAN,
        std=STD,
    )
    return replace(dataset, remarks=(FOR_TUNING, *_remarks(dataset, copy)))


def find_copy(name: str, root: Path) -> CifarCopy | None:
    """The copy below ``root``, or in ``root`` itself; a complete one if there is one."""
    edition = CIFAR_EDITIONS[name]
    copies = [
        CifarCopy(edition, layout, root / layout.folder, _remedy(name, root))
        for layout in edition.layouts
        if (root / layout.folder).is_dir()
    ]
    copies += [
        CifarCopy(edition, layout, root, _remedy(name, root.parent))
        for layout in edition.layouts
        if _is_copy(root, layout)
    ]
    return min(copies, key=lambda copy: bool(copy.missing()), default=None)


def md5_sum(path: Path) -> str:
    """The MD5 sum of a file: the checksum that was published for CIFAR."""
    try:
        with path.open("rb") as file:
            return file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise TailcloudError(f"{path} cannot be read: {error.strerror}") from None


def _complete_copy(name: str, spec: str, root: Path) -> CifarCopy:
    copy, edition = find_copy(name, root), CIFAR_EDITIONS[name]
    if copy is None:
        raise TailcloudError(
            f"{spec} needs {edition.title} in {root}/; {_remedy(name, root)} or pass --root with the folder "
            f"that has {' or '.join(layout.folder for layout in edition.layouts)}"
        )
    if missing := copy.missing():
        raise TailcloudError(f"{copy.folder} lacks {', '.join(missing)}; {copy.remedy}")
    return copy


def _is_copy(folder: Path, layout: Layout) -> bool:
    named = folder.is_dir() and folder.resolve().name == layout.folder
    return named or all((folder / file).is_file() for file in (layout.files[0], layout.files[-1]))


def _remarks(dataset: Dataset, copy: CifarCopy) -> Iterator[str]:
    if dataset.fingerprint == FINGERPRINTS.get(dataset.spec):
        return
    if changed := copy.changed():
        published = f"the published {copy.edition.title}"
        yield f"{copy.folder} differs from {published} in {', '.join(changed)}; {copy.remedy}."
        black = int((~dataset.train.pixels.reshape(len(dataset.train), -1).any(axis=1)).sum())
        if black:
            yield f"{black:,} of {len(dataset.train):,} training images are black: {copy.folder} is a partial copy."


def _remedy(name: str, root: Path) -> str:
    return f'run "tailcloud data get {name} --root {quote(str(root))}"'


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TailcloudError(f"{path} cannot be read: {error.strerror}") from None


def _is_label(value: object) -> bool:
    return isinstance(value, int | np.integer) and abs(int(value)) < 2**31
