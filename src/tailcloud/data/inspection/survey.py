"""What is in a data set, image by image, whether or not it could be trained on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.data import OWN, open_dataset, parse_spec
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.benchmarks.file_lists import listed
from tailcloud.data.dataset import Dataset, Images
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Header, Unreadable
from tailcloud.data.inspection.duplicates import SIDE
from tailcloud.data.memory import check_fits, shortage
from tailcloud.data.parallel_io import read_headers, read_pictures, unreadable_remark
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.build_dataset import assemble, order_of
from tailcloud.data.readers.build_streamed import Filed, streamed
from tailcloud.data.readers.file_list import Listing, group_keys
from tailcloud.data.readers.image_size import chosen_size
from tailcloud.data.readers.npz import read_labels
from tailcloud.data.readers.own_data import list_images, long_list, staying
from tailcloud.data.readers.split_assignment import PART_NAMES, Arrangement, arrange, in_order, part_numbers
from tailcloud.errors import TailcloudError

Vector = NDArray[np.int64]

UNREAD = (
    "Not every image was read: sizes and images that are there twice were not looked for, and whether all files are "
    "there and whole, tailcloud data verify says."
)


@dataclass
class Survey:
    """All images of a data set, numbered through.

    Args:
        spec: the data set.
        class_names: the classes, in order.
        labels: the class of each image.
        parts: the part of each image; where the data say nothing and none could be set aside, all are for training.
        names: the file of each image; None where images are no files.
        images: their pixels, in the same order, in one array or more; none where they were not or could not be read.
        headers: size and mode of each file that is an image.
        broken: names of files that cannot be read, and why.
        refusals: why training would not start, a sentence each.
        dataset: what training would get; None where it would refuse.
        remarks: what a person should know.
    """

    spec: str
    class_names: Sequence[str] = ()
    labels: Vector = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Sequence[str] = ()
    names: Sequence[str] | None = None
    images: Sequence[Images] = ()
    headers: Sequence[Header] = ()
    broken: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    dataset: Dataset | None = None
    remarks: Sequence[str] = ()

    def name(self, image: int) -> str:
        """An image as people can find it: its file, or its number within its part."""
        if self.names is not None:
            return self.names[image]
        part = self.parts[image]
        return f"{part} {image - self.parts.index(part)}"

    def counts(self) -> dict[str, Vector]:
        """Images of each class, by part; parts without images are left out."""
        parts = np.array(self.parts)
        return {
            part: np.bincount(self.labels[parts == part], minlength=len(self.class_names))
            for part in PART_NAMES
            if (parts == part).any()
        }

    @contextmanager
    def minding(self) -> Iterator[None]:
        """What training would refuse in here is noted, and nothing stops."""
        try:
            yield
        except TailcloudError as refusal:
            if str(refusal) not in self.refusals:
                self.refusals.append(str(refusal))

    def hold(self, dataset: Dataset) -> None:
        """Take all images of a data set, part by part."""
        parts = {"train": dataset.train, "val": dataset.val, "test": dataset.test}
        there = {name: part for name, part in parts.items() if part}
        names = [part.names for part in there.values() if part.names is not None]
        self.class_names = dataset.class_names
        self.labels = np.concatenate([part.labels for part in there.values()])
        self.parts = [name for name, part in there.items() for _ in range(len(part))]
        self.names = np.concatenate(names).tolist() if names else None
        self.images = [part.images for part in there.values() if not isinstance(part.images, FileImages)]
        self.dataset, self.remarks = dataset, dataset.remarks
        if not self.images:
            self.remarks = [*dataset.remarks, UNREAD]


def survey(spec: str, root: str | Path = "data", reading: ReadOptions = ReadOptions()) -> Survey:  # noqa: B008
    """Look at everything that ``spec`` names; arguments are those of ``open_dataset``.

    Raises:
        TailcloudError: there is nothing to look at: no files, no classes, a list that cannot be read.
    """
    if (name := parse_spec(spec)[0]) in EDITIONS and reading.loader != "resident":
        return _survey_published(name, Path(root), reading)
    if name != OWN:
        return survey_dataset(open_dataset(spec, root, reading))
    path = Path(spec).expanduser()
    if path.suffix.lower() == ".npz" and path.is_file():
        return _survey_arrays(spec, path, reading)
    if reading.loader == "stream" or long_list(path, reading):
        return survey_dataset(open_dataset(spec, root, reading))
    return survey_files(spec, list_images(path, Path(root), reading.group), reading)


def survey_dataset(dataset: Dataset) -> Survey:
    """A data set that is whole."""
    found = Survey(dataset.spec)
    found.hold(dataset)
    return found


def _survey_published(name: str, root: Path, reading: ReadOptions) -> Survey:
    """A large benchmark by its lists, and whether its images are there."""
    found = survey_dataset(listed(name, root, reading))
    with found.minding():
        found.dataset = open_dataset(name, root, reading)
    return found


def _survey_arrays(spec: str, path: Path, reading: ReadOptions) -> Survey:
    """An ``.npz`` file; where training would refuse it, its classes are counted and its images stay unread."""
    try:
        return survey_dataset(open_dataset(spec, reading=reading))
    except TailcloudError as refusal:
        labels, parts = read_labels(path)
        if not labels:
            raise
        class_names = in_order(set(labels))
        numbers, parts = _numbered(labels, class_names), [part or "train" for part in parts]
        return Survey(spec, class_names, numbers, parts, refusals=[str(refusal)])


def survey_files(spec: str, listing: Listing, reading: ReadOptions) -> Survey:
    """Image files, read as training would read them: once, at the size that it would take.

    Raises:
        TailcloudError: not one of them can be read.
    """
    headers = read_headers(listing.paths)
    broken = {at: header for at, header in enumerate(headers) if isinstance(header, Unreadable)}
    whole = [at for at in range(len(listing)) if at not in broken]
    found = Survey(spec, headers=[header for header in headers if isinstance(header, Header)], remarks=listing.remarks)
    if whole:
        broken |= {whole[at]: error for at, error in _read(found, listing.take(whole), reading).items()}
    with found.minding():
        unreadable_remark(spec, listing.names, broken)
    if not len(found.labels):
        raise TailcloudError(found.refusals[-1])
    found.broken = {listing.names[at]: error.why for at, error in sorted(broken.items())}
    if found.refusals:
        found.dataset = None
    return found


def _read(found: Survey, sound: Listing, reading: ReadOptions) -> dict[int, Unreadable]:
    """Put the images of sound files into a survey; those (by position) whose pixels cannot be read are left out."""
    arranged = _arranged(found, sound, reading)
    order = order_of(arranged)
    size, sizing = chosen_size([(header.height, header.width) for header in found.headers], reading)
    channels = 1 if all(header.grey for header in found.headers) else 3
    short = shortage(len(order), size, channels)
    if short and reading.loader == "resident":
        with found.minding():
            check_fits(found.spec, len(order), size, channels)
    side = min(size, SIDE) if short else size
    images, damaged = read_pictures(sound.take(order.tolist()).paths, channels, side, reading.fit)
    found.remarks = [*found.remarks, *arranged.remarks, *sizing]
    if not found.refusals:
        with found.minding():
            if short:
                remarks = [*found.remarks, *staying(short)]
                found.dataset = streamed(
                    Filed(found.spec, sound.root, sound.packed()), arranged, size, reading, remarks
                )
                found.remarks = found.dataset.remarks
            else:
                found.hold(assemble(arranged, images, sound.names, reading.fit, found.remarks, left_out=damaged))
    if not found.images:
        kept = np.setdiff1d(np.arange(len(order)), list(damaged))
        found.class_names, found.labels = arranged.class_names, arranged.labels[order][kept]
        found.parts = [PART_NAMES[part] for part in arranged.parts[order][kept].tolist()]
        found.names, found.images = [sound.names[order[row]] for row in kept], [images[kept] if damaged else images]
    return {int(order[row]): error for row, error in damaged.items()}


def _arranged(found: Survey, sound: Listing, reading: ReadOptions) -> Arrangement:
    """Classes and parts as training would have them, or as the data name them where it would refuse."""
    with found.minding():
        keys, remarks = group_keys(sound, reading.group)
        arranged = arrange(found.spec, sound.labels, sound.parts, keys, reading)
        arranged.remarks[:0] = remarks
        return arranged
    class_names = in_order(set(sound.labels))
    parts = part_numbers(part or "train" for part in sound.parts)
    return Arrangement(found.spec, class_names, _numbered(sound.labels, class_names), parts)


def _numbered(labels: Sequence[str], class_names: Sequence[str]) -> Vector:
    place = {name: position for position, name in enumerate(class_names)}
    return np.array([place[label] for label in labels], np.int64)
