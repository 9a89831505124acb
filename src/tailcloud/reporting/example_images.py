"""The test images that a run kept as examples of its errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from tailcloud.errors import TailcloudError
from tailcloud.reporting.image_uri import image_uri

LARGEST = 4_000_000  # bytes of a file of examples: what a page has room for
MOST = 100  # of them
WIDEST = 128  # pixels
COARSE = 32


@dataclass(frozen=True)
class Example:
    """A test image, and the class it was taken for."""

    picture: NDArray[np.uint8]
    predicted: int

    @property
    def uri(self) -> str:
        """The picture to stand inside a page."""
        return image_uri(self.picture)

    @property
    def coarse(self) -> bool:
        """Whether it is so small that its pixels should be seen."""
        height, width = self.picture.shape[:2]
        return bool(max(height, width) <= COARSE)


Examples = Mapping[int, Sequence[Example]]


def read_examples(path: Path, classes: int) -> dict[int, list[Example]]:
    """The examples of a run by their true class; none where the run has none."""
    if not path.is_file():
        return {}
    if path.stat().st_size > LARGEST:
        raise _damaged(path)
    try:
        content = load(path.read_bytes())
        images, true, predicted = (content[name] for name in ("images", "true", "predicted"))
    except (SafetensorError, KeyError, ValueError):
        raise _damaged(path) from None
    if not _fits(images, true, predicted, classes):
        raise _damaged(path)
    found: dict[int, list[Example]] = {}
    for picture, label, other in zip(images, true.tolist(), predicted.tolist(), strict=True):
        found.setdefault(label, []).append(Example(picture, other))
    return found


def _fits(images: NDArray[np.uint8], true: NDArray[np.int64], predicted: NDArray[np.int64], classes: int) -> bool:
    if (
        images.dtype != np.uint8
        or images.ndim != 4
        or not 1 <= min(images.shape[1:]) <= max(images.shape[1:3]) <= WIDEST
    ):
        return False
    labels = (true, predicted)
    return len(images) <= MOST and all(
        one.dtype == np.int64 and one.shape == images.shape[:1] and bool(((one >= 0) & (one < classes)).all())
        for one in labels
    )


def _damaged(path: Path) -> TailcloudError:
    return TailcloudError(
        f"{path} is damaged or was not written by tailcloud; delete it, and the report does without images"
    )
