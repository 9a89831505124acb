"""The misclassified test images of a run, as a report shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.reporting.image_uri import image_uri
from tailcloud.runs.examples_file import read_error_examples

COARSE = 32  # pixels


@dataclass(frozen=True)
class Example:
    """A test image, and the class that was predicted for it."""

    image: NDArray[np.uint8]
    predicted: int

    @property
    def uri(self) -> str:
        """The image as a data URI."""
        return image_uri(self.image)

    @property
    def coarse(self) -> bool:
        """Whether the image is so small that a page shows its pixels without smoothing."""
        height, width = self.image.shape[:2]
        return bool(max(height, width) <= COARSE)


Examples = Mapping[int, Sequence[Example]]


def examples_by_class(path: Path, classes: int) -> dict[int, list[Example]]:
    """The examples in a file by their true class; empty if there is no such file."""
    content = read_error_examples(path, classes)
    if content is None:
        return {}
    by_class: dict[int, list[Example]] = {}
    for image, label, predicted in zip(content.images, content.true, content.predicted, strict=True):
        by_class.setdefault(int(label), []).append(Example(image, int(predicted)))
    return by_class
