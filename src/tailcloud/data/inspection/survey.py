"""``survey(spec)``: what is in a data set, image by image, whether or not it could be trained on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.data import OWN, open_dataset, parse_spec
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.benchmarks.file_lists import listed
from tailcloud.data.dataset import Dataset
from tailcloud.data.image_io import Header, ImageArray, Pixels
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.build_dataset import DecodedFiles, read_files
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.npz import read_labels
from tailcloud.data.readers.open_path import list_files, read_if_large
from tailcloud.data.readers.split_assignment import SPLIT_NAMES, as_listed
from tailcloud.errors import TailcloudError
from tailcloud.files import expand_home

Vector = NDArray[np.int64]

UNREAD = (
    "The images were not opened, so sizes and duplicates are unknown. Run `tailcloud data verify` to check every file."
)


@dataclass
class Survey:
    """All images of a data set, numbered from 0.

    Args:
        spec: the data set.
        class_names: the classes, in order.
        labels: the class of each image.
        splits: the split of each image; all are "train" if the data name no split and none could be set aside.
        names: the file of each image; None if the images are not files.
        images: their pixels, in the same order, in one array or more; none if they were not or could not be read.
        headers: size and mode of each image, if the images are files; in the same order.
        broken: names of files that cannot be read, and why.
        refusals: why training would not start, one sentence each.
        dataset: what training would get; None if it would refuse.
        remarks: what a person should know.
        files: the list of image files, in an order of its own; None if the images are not files, or were not opened.
        options: how the images are read.
    """

    spec: str
    class_names: Sequence[str] = ()
    labels: Vector = field(default_factory=lambda: np.empty(0, np.int64))
    splits: Sequence[str] = ()
    names: Sequence[str] | None = None
    images: Sequence[Pixels] = ()
    headers: Sequence[Header] = ()
    broken: dict[str, str] = field(default_factory=dict)
    refusals: Sequence[str] = ()
    dataset: Dataset | None = None
    remarks: Sequence[str] = ()
    files: FileList | None = None
    options: ReadOptions = field(default_factory=ReadOptions)

    def name(self, image: int) -> str:
        """An image as people can find it: its file, or its number within its split."""
        if self.names is not None:
            return self.names[image]
        split = self.splits[image]
        return f"{split} {image - self.splits.index(split)}"

    def pixels(self, image: int) -> ImageArray:
        """The pixels of an image [H, W, C] among ``images``."""
        for images in self.images:
            if image < len(images):
                return np.asarray(images[image])
            image -= len(images)
        raise IndexError(image)

    def file_rows(self) -> list[int]:
        """The position of each image in ``files``."""
        places = {name: row for row, name in enumerate(self.files.names if self.files else ())}
        return [places[name] for name in self.names or ()]

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """Height, width and channels of images that training would read as they are here; None if it chooses a size."""
        fixed = not self.headers or self.options.size is not None
        return self.dataset.shape if self.dataset and fixed else None

    @property
    def splits_named(self) -> bool:
        """Whether the files name their splits, so that none is made for training."""
        return self.files is not None and any(self.files.splits)

    def counts(self) -> dict[str, Vector]:
        """Images per class, by split; splits without images are left out."""
        splits = np.array(self.splits)
        return {
            split: np.bincount(self.labels[splits == split], minlength=len(self.class_names))
            for split in SPLIT_NAMES
            if (splits == split).any()
        }


def survey(spec: str, root: str | Path = "data", options: ReadOptions = ReadOptions()) -> Survey:  # noqa: B008
    """Survey everything that ``spec`` names; arguments are those of ``open_dataset``.

    Raises:
        TailcloudError: there is nothing to survey: no files, no classes, a list that cannot be read.
    """
    if (name := parse_spec(spec)[0]) in EDITIONS and options.loader != "resident":
        return _survey_benchmark(name, Path(root), options)
    if name != OWN:
        return survey_dataset(open_dataset(spec, root, options))
    path = expand_home(spec)
    if path.suffix.lower() == ".npz" and path.is_file():
        return _survey_npz(spec, path, options)
    if options.loader == "stream" or read_if_large(path, options):
        return survey_dataset(open_dataset(spec, root, options))
    return survey_files(spec, list_files(path, root, options.group), options)


def survey_dataset(dataset: Dataset) -> Survey:
    """A survey of a data set that training accepts: all images, split by split."""
    test = None if dataset.test is dataset.train else dataset.test
    splits = {"train": dataset.train, "val": dataset.val, "test": test}
    present = {name: split for name, split in splits.items() if split}
    names = [split.names for split in present.values() if split.names is not None]
    images = [split.pixels for split in present.values() if not split.streamed]
    return Survey(
        dataset.spec,
        class_names=dataset.class_names,
        labels=np.concatenate([split.labels for split in present.values()]),
        splits=[name for name, split in present.items() for _ in range(len(split))],
        names=np.concatenate(names).tolist() if names else None,
        images=images,
        dataset=dataset,
        remarks=dataset.remarks if images else [*dataset.remarks, UNREAD],
    )


def _survey_benchmark(name: str, root: Path, options: ReadOptions) -> Survey:
    """A large benchmark by its lists; training would refuse it if its images are missing."""
    surveyed = survey_dataset(listed(name, root, options))
    try:
        surveyed.dataset = open_dataset(name, root, options)
    except TailcloudError as refusal:
        surveyed.refusals = [str(refusal)]
    return surveyed


def _survey_npz(spec: str, path: Path, options: ReadOptions) -> Survey:
    """An ``.npz`` file; if training would refuse it, its classes are counted and its images are not read."""
    try:
        return survey_dataset(open_dataset(spec, options=options))
    except TailcloudError as refusal:
        labels, splits = read_labels(path)
        if not labels:
            raise
        splits = [split or "train" for split in splits]
        assignment = as_listed(spec, labels, splits)
        return Survey(spec, assignment.class_names, assignment.labels, splits, refusals=[str(refusal)])


def survey_files(spec: str, files: FileList, options: ReadOptions) -> Survey:
    """Image files, read as training would read them, each once; problems are collected.

    Raises:
        TailcloudError: not one of them can be read.
    """
    read = read_files(spec, files, options, collect=True)
    decoded = read.decoded
    assert decoded is not None  # all files are, if problems are collected
    resident = read.dataset and not read.dataset.train.streamed
    surveyed = survey_dataset(read.dataset) if read.dataset and resident else _survey_decoded(spec, decoded)
    surveyed.dataset, surveyed.refusals, surveyed.remarks = read.dataset, read.problems, read.remarks
    surveyed.headers, surveyed.files, surveyed.options = decoded.shown_headers(), files, options
    surveyed.broken = {files.names[row]: error.why for row, error in sorted(decoded.broken.items())}
    return surveyed


def _survey_decoded(spec: str, decoded: DecodedFiles) -> Survey:
    """A survey of files that training would refuse, or of thumbnails of files that it would stream."""
    assignment, order, kept = decoded.assignment, decoded.assignment.order(), decoded.kept_rows()
    return Survey(
        spec,
        class_names=assignment.class_names,
        labels=assignment.labels[order][kept],
        splits=[SPLIT_NAMES[split] for split in assignment.splits[order][kept].tolist()],
        names=[decoded.names[order[row]] for row in kept],
        images=[decoded.images[kept] if decoded.damaged else decoded.images],
    )
