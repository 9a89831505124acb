"""Data sets whose images stay in their files: what has to be known of them is taken from a sample."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tailcloud.data.dataset import Dataset, Split, channel_statistics
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Header, Unreadable
from tailcloud.data.memory import shortage
from tailcloud.data.packed_names import Names
from tailcloud.data.parallel_io import read_headers, read_pictures, unreadable_remark
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.image_size import LARGEST_BY_ITSELF, chosen_size
from tailcloud.data.readers.split_assignment import PART_NAMES, Arrangement
from tailcloud.data.splits import Vector
from tailcloud.formatting import readable

SAMPLE = 1000  # files that are opened to learn about all of them
CHANNELS = 3  # whether a single one of them has colours is known when all of them were opened


@dataclass(frozen=True)
class Filed:
    """Image files under a folder that nobody has opened yet."""

    spec: str
    root: Path
    names: Names

    def path(self, row: int) -> Path:
        """Where a file is."""
        return self.root / os.fsdecode(self.names.raw(row))

    @cached_property
    def headers(self) -> list[Header]:
        """Those of a sample of the files; too many that cannot be read are refused."""
        rows = even_sample(len(self.names))
        found = read_headers([self.path(row) for row in rows])
        broken = {at: each for at, each in enumerate(found) if isinstance(each, Unreadable)}
        self.refuse_broken(rows, broken, len(self.names))
        return [each for each in found if isinstance(each, Header)]

    def size(self, reading: ReadOptions) -> tuple[int, list[str]]:
        """Pixels a side as the recipe or a sample of the files suggests, and remarks."""
        if reading.size is not None:
            return reading.size, []
        return chosen_size([(header.height, header.width) for header in self.headers], reading)

    def shortage(self, reading: ReadOptions) -> str | None:
        """Why the images do not fit into memory, if they do not, as far as a sample tells."""
        if shortage(len(self.names), reading.size or LARGEST_BY_ITSELF, CHANNELS) is None:
            return None
        grey = all(header.grey for header in self.headers)
        return shortage(len(self.names), self.size(reading)[0], 1 if grey else CHANNELS)

    def refuse_broken(self, rows: list[int], broken: dict[int, Unreadable], of: int) -> list[str]:
        """A remark on files of a sample of so many that cannot be read, by their place in it; too many are refused."""
        tried = self.spec if len(rows) == of else f"{self.spec}, of which {len(rows):,} images were tried"
        remark = unreadable_remark(tried, [readable(self.names[row]) for row in rows], broken)
        whom = "images" if len(rows) == of else "images that were tried"
        return [
            sentence.replace("images cannot be read and are left out", f"{whom} cannot be read") for sentence in remark
        ]


def even_sample(images: int) -> list[int]:
    """At most ``SAMPLE`` numbers below ``images``, evenly spread."""
    places = np.linspace(0, images - 1, min(images, SAMPLE))
    rows: list[int] = np.unique(np.rint(places).astype(np.int64)).tolist()
    return rows


def streamed(filed: Filed, arranged: Arrangement, size: int, reading: ReadOptions, remarks: list[str]) -> Dataset:
    """The data set of files that stay where they are; a sample of the training images says what normalises them."""
    files = FileImages(filed.root, filed.names, size, reading.fit, channels=CHANNELS)
    train, val, test = (_part(files, arranged, part) for part in PART_NAMES)
    mean, std, broken = _statistics(filed, arranged.of("train"), size, reading)
    return Dataset(
        spec=filed.spec,
        train=train,
        test=test,
        class_names=arranged.class_names,
        mean=mean,
        std=std,
        val=val if len(val) else None,
        remarks=(*remarks, *broken),
        fit=reading.fit,
    )


def _part(files: FileImages, arranged: Arrangement, part: str) -> Split:
    rows = arranged.of(part)
    return Split(files[rows], arranged.labels[rows], None if arranged.groups is None else arranged.groups[rows])


def _statistics(
    filed: Filed, train: Vector, size: int, reading: ReadOptions
) -> tuple[list[float], list[float], list[str]]:
    """Mean and deviation of some training images, which are at the rows ``train`` of all files, and remarks."""
    rows: list[int] = train[even_sample(len(train))].tolist()
    images, broken = read_pictures([filed.path(row) for row in rows], CHANNELS, size, reading.fit)
    remarks = filed.refuse_broken(rows, broken, len(train))
    return *channel_statistics(np.delete(images, list(broken), axis=0)), remarks
