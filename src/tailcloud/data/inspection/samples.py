"""A few images of every class, for a person to look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import ImageArray, Unreadable
from tailcloud.data.inspection.survey import Survey
from tailcloud.formatting import readable

MAX_SAMPLES = 400
SAMPLES_PER_CLASS = 6

Vector = NDArray[np.int64]


@dataclass(frozen=True)
class SampleImage:
    """A training image of a class, as it is read for training."""

    label: int
    name: str
    pixels: ImageArray


def sampled_classes(order: Sequence[int]) -> Sequence[int]:
    """The classes of which images are sampled: all, or every k-th if there are more than ``MAX_SAMPLES``."""
    return order[:: -(-len(order) // MAX_SAMPLES)]


def sample_rounds(survey: Survey, order: Sequence[int]) -> Iterator[SampleImage]:
    """Sample images in rounds: one of every class, in the given order of classes, then a second of every class …

    At most ``SAMPLES_PER_CLASS`` of a class and ``MAX_SAMPLES`` in all, of ``sampled_classes``. The images of a class
    are spread over its files. Files that stayed on the disk are opened; those that cannot be read are left out.
    """
    labels, read = _source(survey)
    shown = sampled_classes(order)
    rounds = min(SAMPLES_PER_CLASS, MAX_SAMPLES // len(shown))
    rows = {c: np.flatnonzero(labels == c) for c in shown}
    for turn in range(rounds):
        for c in shown:
            if turn < min(rounds, len(rows[c])):
                at = turn * len(rows[c]) // min(rounds, len(rows[c]))
                if (sample := read(int(rows[c][at]))) is not None:
                    yield SampleImage(c, *sample)


def _source(survey: Survey) -> tuple[Vector, Callable[[int], tuple[str, ImageArray] | None]]:
    """The labels of the training images (-1: another split), and a function that reads one: its name and pixels."""
    if survey.dataset and isinstance(files := survey.dataset.train.images, FileImages):
        return survey.dataset.train.labels, lambda row: _read(files, row)
    if not survey.images:
        return np.empty(0, np.int64), lambda _: None
    trained = np.array(survey.splits) == "train"
    return np.where(trained, survey.labels, -1), lambda row: (survey.name(row), survey.pixels(row))


def _read(files: FileImages, row: int) -> tuple[str, ImageArray] | None:
    try:
        return readable(files.names[row]), files.read(row)[0]
    except Unreadable:
        return None
