"""The file format of ``examples.safetensors``: test images that the trained model got wrong."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, write_atomically

LARGEST_FILE = 4_000_000  # bytes; a report embeds the images
MAX_IMAGES = 100
MAX_SIDE = 128  # pixels


@dataclass(frozen=True)
class ErrorExamples:
    """uint8 ``images`` [N, H, W, C], and the ``true`` and the ``predicted`` class of each, int64 [N]."""

    images: NDArray[np.uint8]
    true: NDArray[np.int64]
    predicted: NDArray[np.int64]

    def valid(self, classes: int) -> bool:
        """Whether types, shapes and class indices are right, and the images are few and small enough."""
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or len(self.images) > MAX_IMAGES:
            return False
        if not 1 <= min(shape[1:]) <= max(shape[1:3]) <= MAX_SIDE:
            return False
        return all(
            labels.dtype == np.int64 and labels.shape == shape[:1] and bool(((labels >= 0) & (labels < classes)).all())
            for labels in (self.true, self.predicted)
        )


def write_error_examples(path: Path, examples: ErrorExamples, classes: int) -> None:
    """Write the examples of a run; raises for examples that the reader would refuse."""
    if not examples.valid(classes):
        raise ValueError(f"these examples do not fit {path.name}: {examples.images.shape}, {classes} classes")
    write_atomically(path, save(vars(examples), {"format": str(FORMAT)}))


def read_error_examples(path: Path, classes: int) -> ErrorExamples | None:
    """The examples of a run; None if the file does not exist. The file is untrusted and is checked."""
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST_FILE:
        raise _damaged(path)
    try:
        content = load(path.read_bytes())
        examples = ErrorExamples(*(content[name] for name in ("images", "true", "predicted")))
    except (SafetensorError, KeyError, ValueError):
        raise _damaged(path) from None
    if not examples.valid(classes):
        raise _damaged(path)
    return examples


def _damaged(path: Path) -> TailcloudError:
    return TailcloudError(
        f"{path} is damaged or was not written by tailcloud; delete it to get a report without images"
    )
