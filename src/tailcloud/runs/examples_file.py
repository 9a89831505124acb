"""The file format of ``examples.safetensors``: a few training and test images of a run, for its report."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, write_atomically

KINDS = ("worst", "confident", "uncertain", "sample")  # the numbers of ``kind``, in this order
LARGEST_FILE = 4_000_000  # bytes; a report embeds the images
MAX_IMAGES = 200
MAX_SIDE = 128  # pixels of a thumbnail
MAX_SEEN = 4  # images in full size
SEEN_SIDE = 224  # pixels of these

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class RunExamples:
    """Thumbnails [N, H, W, C] as uint8, and what they are examples of; a few images as the model sees them.

    ``kind`` [N] is the place in ``KINDS``: an error in one of the worst classes, a most confident error, a least
    certain test image, or a training image as a sample of its class. ``true`` and ``predicted`` [N] are classes,
    ``confidence`` [N] the model's highest probability; a sample has its own class and 0. ``seen`` [M, H, W, C] are
    training images at the model's size, of the classes ``seen_true`` [M].
    """

    images: NDArray[np.uint8]
    true: Labels
    predicted: Labels
    confidence: NDArray[np.float32]
    kind: Labels
    seen: NDArray[np.uint8]
    seen_true: Labels

    def valid(self, classes: int) -> bool:
        """Whether types, shapes and class indices are right, and the images are few and small enough."""
        count = self.images.shape[:1]
        return (
            _are_images(self.images, MAX_IMAGES, MAX_SIDE)
            and _are_images(self.seen, MAX_SEEN, SEEN_SIDE)
            and _are_below(self.true, count, classes)
            and _are_below(self.predicted, count, classes)
            and _are_below(self.kind, count, len(KINDS))
            and _are_below(self.seen_true, self.seen.shape[:1], classes)
            and self.confidence.dtype == np.float32
            and self.confidence.shape == count
            and bool(((self.confidence >= 0) & (self.confidence <= 1)).all())
        )


def write_run_examples(path: Path, examples: RunExamples, classes: int) -> None:
    """Write the examples of a run; raises for examples that the reader would refuse."""
    if not examples.valid(classes):
        raise ValueError(f"these examples do not fit {path.name}: {examples.images.shape}, {classes} classes")
    write_atomically(path, save(vars(examples), {"format": str(FORMAT)}))


def read_run_examples(path: Path, classes: int) -> RunExamples | None:
    """The examples of a run; None if the file does not exist. The file is untrusted and is checked.

    Older files have the errors of the worst classes only, without their confidence.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST_FILE:
        raise _damaged(path)
    try:
        content = load(path.read_bytes())
        examples = RunExamples(**(_before_kinds(content["images"]) | content))
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise _damaged(path) from None
    if not examples.valid(classes):
        raise _damaged(path)
    return examples


def _before_kinds(images: NDArray[np.uint8]) -> dict[str, NDArray[np.generic]]:
    """What an older file does not have."""
    count = len(images) if images.ndim else 0
    return {
        "confidence": np.zeros(count, np.float32),
        "kind": np.zeros(count, np.int64),
        "seen": np.zeros((0, 1, 1, 1), np.uint8),
        "seen_true": np.zeros(0, np.int64),
    }


def _are_images(images: NDArray[np.uint8], most: int, side: int) -> bool:
    shape = images.shape
    return (
        images.dtype == np.uint8
        and len(shape) == 4
        and len(images) <= most
        and 1 <= min(shape[1:]) <= max(shape[1:3]) <= side
    )


def _are_below(labels: Labels, shape: tuple[int, ...], limit: int) -> bool:
    return labels.dtype == np.int64 and labels.shape == shape and bool(((labels >= 0) & (labels < limit)).all())


def _damaged(path: Path) -> TailcloudError:
    return TailcloudError(
        f"{path} is damaged or was not written by tailcloud; delete it to get a report without images"
    )
