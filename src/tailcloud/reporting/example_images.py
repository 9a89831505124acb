"""The images that a run kept, as a report shows them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.reporting.image_uri import image_uri
from tailcloud.runs.examples_file import KINDS, read_run_examples

COARSE = 32  # pixels


@dataclass(frozen=True)
class Example:
    """An image, its class, the class that was predicted for it, and the confidence from 0 to 1 (0: not known)."""

    image: NDArray[np.uint8]
    true: int
    predicted: int
    confidence: float = 0.0

    @property
    def uri(self) -> str:
        """The image as a data URI."""
        return image_uri(self.image, lossy=not self.coarse)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        height, width = self.image.shape[:2]
        return height, width

    @property
    def coarse(self) -> bool:
        """Whether the image is so small that a page shows its pixels without smoothing."""
        return max(self.size) <= COARSE


ByClass = dict[int, list[Example]]


@dataclass(frozen=True)
class Examples:
    """The images of a run by kind, as ``RunExamples`` says; all empty if it kept none."""

    worst: ByClass = field(default_factory=dict)
    confident: Sequence[Example] = ()
    uncertain: Sequence[Example] = ()
    samples: ByClass = field(default_factory=dict)
    seen: Sequence[Example] = ()


def read_examples(path: Path, classes: int) -> Examples:
    """The images in a file; none if there is no such file."""
    content = read_run_examples(path, classes)
    if content is None:
        return Examples()
    kinds: dict[str, list[Example]] = {kind: [] for kind in KINDS}
    labels = zip(content.true.tolist(), content.predicted.tolist(), content.confidence.tolist(), strict=True)
    for image, kind, (true, predicted, confidence) in zip(content.images, content.kind, labels, strict=True):
        kinds[KINDS[kind]].append(Example(image, true, predicted, confidence))
    seen = [Example(image, true, true) for image, true in zip(content.seen, content.seen_true.tolist(), strict=True)]
    return Examples(_by_class(kinds["worst"]), kinds["confident"], kinds["uncertain"], _by_class(kinds["sample"]), seen)


def _by_class(examples: Sequence[Example]) -> ByClass:
    found: ByClass = {}
    for example in examples:
        found.setdefault(example.true, []).append(example)
    return found
