"""Image files become a data set: decoded into memory, or left in their files and read when needed.

``open_dataset``, ``inspection.survey`` and ``fit`` with a list of paths all read image files through ``read_files``.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import Dataset, Split, channel_statistics
from tailcloud.data.file_images import FileImages, UndecodedImages
from tailcloud.data.image_io import Header, Pixels, Unreadable
from tailcloud.data.memory import check_images_fit, image_shortage
from tailcloud.data.packed_names import Names
from tailcloud.data.parallel_io import check_unreadable, read_headers, read_images, unreadable_remark
from tailcloud.data.read_options import Fit, ReadOptions
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.groups import group_keys
from tailcloud.data.readers.image_size import LARGEST_DEFAULT_SIZE, choose_size, native_ratio, native_side
from tailcloud.data.readers.split_assignment import SPLIT_NAMES, SplitAssignment, as_listed, assign_splits
from tailcloud.data.splits import Vector
from tailcloud.errors import TailcloudError
from tailcloud.formatting import readable

SAMPLE = 1000  # files that are opened to learn about all of them
CHANNELS = 3  # of images that stay in their files: whether all are grey is known only after all were opened
THUMBNAIL = 16  # pixels a side of images that are inspected, but do not fit into memory

Mask = NDArray[np.bool_]


class Problems:
    """Why a data set cannot be trained on: raised at once for training, collected for inspection."""

    def __init__(self, *, collect: bool) -> None:
        self.collect, self.sentences = collect, list[str]()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Collect an error that is raised inside, if problems are collected."""
        try:
            yield
        except TailcloudError as error:
            if not self.collect:
                raise
            if str(error) not in self.sentences:
                self.sentences.append(str(error))


@dataclass(frozen=True)
class DecodedFiles:
    """Image files that were all decoded.

    Args:
        headers: size and mode of each file that is an image.
        broken: the files that cannot be read, by position in the list.
        names: the files whose headers could be read.
        assignment: class and split of each of these.
        images: their pixels in ``assignment.order()``, as thumbnails if they do not fit into memory.
        damaged: rows of ``images`` that could not be decoded, and are black.
    """

    headers: Sequence[Header]
    broken: Mapping[int, Unreadable]
    names: Sequence[str]
    assignment: SplitAssignment
    images: Pixels
    damaged: Collection[int]

    def kept_rows(self) -> Vector:
        """The rows of ``images`` that could be decoded."""
        return np.setdiff1d(np.arange(len(self.images)), list(self.damaged))

    def shown_headers(self) -> list[Header]:
        """The headers of the images that could be decoded, in the order of ``images``."""
        return [self.headers[row] for row in self.assignment.order()[self.kept_rows()].tolist()]


@dataclass(frozen=True)
class ReadFiles:
    """The result of reading image files.

    Args:
        dataset: what training gets; None if it would refuse.
        remarks: what a person should know, apart from ``unreadable``.
        unreadable: a remark on the files that cannot be read, if there are any.
        problems: why training would refuse, one sentence each; empty unless problems are collected.
        decoded: the decoded files; None if they stay in their files.
    """

    dataset: Dataset | None
    remarks: Sequence[str]
    unreadable: Sequence[str]
    problems: Sequence[str] = ()
    decoded: DecodedFiles | None = None


def build_dataset(spec: str, files: FileList, options: ReadOptions) -> Dataset:
    """The data set of image files, in memory or in their files as ``options.loader`` says.

    Raises:
        TailcloudError: more than 5 % of the files cannot be read, they do not fit into memory, or they cannot be split.
    """
    dataset = read_files(spec, files, options).dataset
    assert dataset is not None  # problems are raised
    return dataset


def read_files(
    spec: str, files: FileList, options: ReadOptions, *, collect: bool = False, opened: "OpenedFiles | None" = None
) -> ReadFiles:
    """Read image files. With ``collect`` problems are collected instead of raised, and every file is decoded.

    ``opened`` has the headers of the same files, if they were read before.

    Raises:
        TailcloudError: a problem (see ``build_dataset``) that is not collected, or not one file can be read.
    """
    unopened, reason = UnopenedFiles(spec, files.root, files.packed_names()), None
    if options.loader == "auto":
        with suppress(*[TailcloudError] if collect else []):  # too many broken files are found again below
            reason = unopened.shortage(options)
    if not collect and (options.loader == "stream" or reason):
        return _leave_in_files(unopened, files, options, reason)
    return _decode_files(unopened, opened or OpenedFiles(spec, files), options, reason, Problems(collect=collect))


def _decode_files(
    unopened: "UnopenedFiles", opened: "OpenedFiles", options: ReadOptions, reason: str | None, problems: Problems
) -> ReadFiles:
    """Headers are known, and so are size, channels and memory before any pixel is decoded."""
    files, headers, rows = opened.files, opened.headers, opened.rows
    if not (problems.collect and headers):  # else it is checked once, after decoding
        check_unreadable(unopened.spec, files.names, opened.broken)
    good, channels = files.take(rows), opened.channels
    assignment = _assign(unopened.spec, good, options, problems)
    order = assignment.order()
    size, size_remarks = choose_size(opened.sides, options)
    size_remarks = [] if problems.collect else size_remarks  # training may choose another size than an inspection
    reason = reason or image_shortage(len(order), size, channels)
    if reason and options.loader == "auto" and not problems.collect:
        return _leave_in_files(unopened, files, options, reason)  # the sample had looked smaller
    if reason and options.loader == "resident":
        with problems.caught():
            check_images_fit(unopened.spec, len(order), size, channels)
    side = min(size, THUMBNAIL) if reason else size
    images, damaged = read_images(opened.images(side, options.fit)[order])
    broken = opened.broken | {rows[order[row]]: error for row, error in damaged.items()}
    with problems.caught() if len(broken) < len(files) else nullcontext():
        check_unreadable(unopened.spec, files.names, broken)
    unreadable = unreadable_remark(files.names, broken)
    remarks = [*files.remarks, *assignment.remarks, *size_remarks]
    dataset = None
    if not problems.sentences:
        with problems.caught():
            if reason:
                dataset = _leave_in_files(unopened, files, options, reason).dataset
                remarks += stream_remark(reason)
            else:
                known = [*files.remarks, *unreadable, *assignment.remarks, *size_remarks]
                dataset = assemble(assignment, images, good.names, options.fit, known, opened.sides, left_out=damaged)
    decoded = DecodedFiles(headers, broken, good.names, assignment, images, damaged)
    return ReadFiles(dataset, remarks, unreadable, problems.sentences, decoded)


class OpenedFiles:
    """Files whose headers were read: ``rows`` of the list that are images, their ``headers``, and ``broken`` rows."""

    def __init__(self, spec: str, files: FileList) -> None:
        self.spec, self.files = spec, files
        self.names = files.packed_names()
        found = read_headers(FileImages(files.root, self.names, THUMBNAIL))
        self.broken = {row: each for row, each in enumerate(found) if isinstance(each, Unreadable)}
        self.rows = [row for row in range(len(files)) if row not in self.broken]
        self.headers = [each for each in found if isinstance(each, Header)]

    @property
    def channels(self) -> int:
        """1 if all images are grey."""
        return 1 if all(header.grey for header in self.headers) else CHANNELS

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Height and width of the images."""
        return [(header.height, header.width) for header in self.headers]

    def images(self, side: int, fit: Fit) -> FileImages:
        """The images, still in their files."""
        names = self.names.take(np.array(self.rows, np.int64))
        return FileImages(self.files.root, names, side, fit, channels=self.channels)

    def dataset(self, options: ReadOptions) -> Dataset:
        """The data set that ``build_dataset`` gives; headers are not read again."""
        dataset = read_files(self.spec, self.files, options, opened=self).dataset
        assert dataset is not None  # problems are raised
        return dataset

    def undecoded(self, options: ReadOptions) -> Dataset:
        """The data set before its images are decoded, for choosing how to read them.

        Images whose headers are good count, damaged ones too. Mean and deviation are not known; they are 0.5 and 0.25.
        """
        check_unreadable(self.spec, self.files.names, self.broken)
        good = self.files.take(self.rows)
        assignment = _assign(self.spec, good, options, Problems(collect=False))
        size, remarks = choose_size(self.sides, options)
        images = UndecodedImages(**vars(self.images(size, options.fit)))
        known = [*good.remarks, *assignment.remarks, *remarks]
        statistics = [0.5] * self.channels, [0.25] * self.channels
        return _dataset(assignment, _splits_of_files(images, assignment), statistics, options.fit, known, self.sides)


def _assign(spec: str, files: FileList, options: ReadOptions, problems: Problems) -> SplitAssignment:
    """Classes and splits for training; where training would refuse, classes and splits as the data name them."""
    with problems.caught():
        keys, remarks = group_keys(files, options.group)
        assignment = assign_splits(spec, files.labels, files.splits, keys, options)
        assignment.remarks[:0] = remarks
        return assignment
    return as_listed(spec, files.labels, [split or "train" for split in files.splits])


def assemble(
    assignment: SplitAssignment,
    images: Pixels,
    names: Sequence[str] | None,
    fit: Fit,
    remarks: Sequence[str],
    sides: Sequence[tuple[int, int]],
    left_out: Collection[int] = (),
) -> Dataset:
    """The data set of decoded ``images``, which are in ``assignment.order()``; rows ``left_out`` are not in it.

    ``sides`` are height and width of images before they were resized.
    """
    order, kept = assignment.order(), np.ones(len(images), dtype=bool)
    kept[list(left_out)] = False
    whole = Split(
        images,
        assignment.labels[order],
        None if assignment.groups is None else assignment.groups[order],
        None if names is None else np.array(names, object)[order],
    )
    splits = [_cut_out(whole, assignment.splits[order] == split, kept) for split in range(len(SPLIT_NAMES))]
    statistics = channel_statistics(splits[0].pixels if len(splits[0]) else images)
    return _dataset(assignment, splits, statistics, fit, remarks, sides)


def _dataset(
    assignment: SplitAssignment,
    splits: Sequence[Split],
    statistics: tuple[list[float], list[float]],
    fit: Fit,
    remarks: Sequence[str],
    sides: Sequence[tuple[int, int]] | None,
) -> Dataset:
    """The data set of three splits, with mean and deviation; ``sides`` as for ``assemble``, None if not known."""
    train, val, test = splits
    return Dataset(
        spec=assignment.spec,
        train=train,
        test=test if assignment.has_test else train,
        class_names=assignment.class_names,
        mean=statistics[0],
        std=statistics[1],
        val=val if len(val) else None,
        remarks=tuple(remarks),
        fit=fit,
        native_side=None if sides is None else native_side(sides),
        native_ratio=None if sides is None else native_ratio(sides),
        class_sizes=assignment.class_sizes,
    )


def _cut_out(whole: Split, belongs: Mask, kept: Mask) -> Split:
    """A split: a view of the whole if nothing in it is left out."""
    rows = np.flatnonzero(belongs)
    if not len(rows) or not kept[rows].all():
        return whole.take(rows[kept[rows]])
    here = slice(rows[0], rows[-1] + 1)
    return Split(
        whole.pixels[here],
        whole.labels[here],
        None if whole.groups is None else whole.groups[here],
        None if whole.names is None else whole.names[here],
    )


def _leave_in_files(unopened: "UnopenedFiles", files: FileList, options: ReadOptions, reason: str | None) -> ReadFiles:
    assignment = _assign(unopened.spec, files, options, Problems(collect=False))
    return build_streamed(unopened, assignment, options, files.remarks, reason)


def build_streamed(
    unopened: "UnopenedFiles",
    assignment: SplitAssignment,
    options: ReadOptions,
    remarks: Sequence[str],
    reason: str | None,
) -> ReadFiles:
    """A data set whose images stay in their files; ``reason`` says why if the recipe did not ask for it.

    The size comes from a sample of the headers, mean and standard deviation from a sample of the training images.
    """
    size, size_remarks = unopened.size(options)
    images = FileImages(unopened.root, unopened.names, size, options.fit, channels=CHANNELS)
    splits = _splits_of_files(images, assignment)
    mean, std, unreadable = _sample_statistics(unopened, assignment.rows("train"), size, options)
    known = [*remarks, *assignment.remarks, *stream_remark(reason), *size_remarks]
    sides = unopened.sides if options.size is None else None  # opens a sample
    dataset = _dataset(assignment, splits, (mean, std), options.fit, [*known, *unreadable], sides)
    return ReadFiles(dataset, known, unreadable)


def stream_remark(reason: str | None) -> list[str]:
    """A remark on images that stay in their files because they do not fit into memory."""
    if reason is None:
        return []
    return [f"{reason}: they stay in their files, and each is read when it is needed (data.loader)."]


def _splits_of_files(images: FileImages, assignment: SplitAssignment) -> list[Split]:
    """Training, validation and test split of images that stay in their files."""
    of_splits, groups = [assignment.rows(split) for split in SPLIT_NAMES], assignment.groups
    return [
        Split(images[rows], assignment.labels[rows], None if groups is None else groups[rows]) for rows in of_splits
    ]


def _sample_statistics(
    unopened: "UnopenedFiles", train: Vector, size: int, options: ReadOptions
) -> tuple[list[float], list[float], list[str]]:
    """Mean and standard deviation of a sample of the training files, which are the rows ``train``, and remarks."""
    rows = train[even_sample(len(train))]
    files = FileImages(unopened.root, unopened.names.take(rows), size, options.fit, channels=CHANNELS)
    images, broken = read_images(files)
    remarks = unopened.check_sample(rows.tolist(), broken, len(train))
    return *channel_statistics(np.delete(images, list(broken), axis=0)), remarks


@dataclass(frozen=True)
class UnopenedFiles:
    """Image files below a folder; what has to be known about all of them comes from a sample."""

    spec: str
    root: Path
    names: Names

    def path(self, row: int) -> Path:
        """Where a file is."""
        return self.root / os.fsdecode(self.names.raw(row))

    @cached_property
    def headers(self) -> list[Header]:
        """The headers of a sample of the files; too many unreadable ones are refused."""
        rows = even_sample(len(self.names))
        found = read_headers(FileImages(self.root, self.names.take(np.array(rows, np.int64)), THUMBNAIL))
        broken = {at: each for at, each in enumerate(found) if isinstance(each, Unreadable)}
        self.check_sample(rows, broken, len(self.names))
        return [each for each in found if isinstance(each, Header)]

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Height and width of the sampled files."""
        return [(header.height, header.width) for header in self.headers]

    def size(self, options: ReadOptions) -> tuple[int, list[str]]:
        """Pixels a side as the recipe says or the sample suggests, and remarks."""
        if options.size is not None:
            return options.size, []
        return choose_size(self.sides, options)

    def shortage(self, options: ReadOptions) -> str | None:
        """Why the images do not fit into memory, estimated from the sample; None if they fit.

        No file is opened if they fit even at the largest default size.
        """
        if image_shortage(len(self.names), options.size or LARGEST_DEFAULT_SIZE, CHANNELS) is None:
            return None
        grey = all(header.grey for header in self.headers)
        return image_shortage(len(self.names), self.size(options)[0], 1 if grey else CHANNELS)

    def check_sample(self, rows: Sequence[int], broken: Mapping[int, Unreadable], total: int) -> list[str]:
        """A remark on the files of a sample of ``total`` that are unreadable; too many are refused."""
        whole, names = len(rows) == total, [readable(self.names[row]) for row in rows]
        check_unreadable(self.spec if whole else f"{self.spec} (a sample of {len(rows):,} images)", names, broken)
        return unreadable_remark(names, broken, what="images" if whole else "sampled images", outcome="")


def even_sample(images: int) -> list[int]:
    """At most ``SAMPLE`` numbers below ``images``, evenly spread."""
    places = np.linspace(0, images - 1, min(images, SAMPLE))
    rows: list[int] = np.unique(np.rint(places).astype(np.int64)).tolist()
    return rows
