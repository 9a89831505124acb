"""What is in a data set, image by image, whether or not it could be trained on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import Dataset, Images
from tailcloud.data.file_images import FileImages
from tailcloud.data.own.arranging import PART_NAMES
from tailcloud.data.pictures import Header
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
