"""Every labelled image of a folder, list or array file, for the evaluation of a model that is trained already.

Nothing is set aside, and no class has to be there. Images are read as the model needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.memory import image_shortage
from tailcloud.data.parallel_io import check_unreadable, read_images, unreadable_remark
from tailcloud.data.read_options import Fit
from tailcloud.data.readers import npz
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.open_path import list_files
from tailcloud.data.splits import Vector


@dataclass(frozen=True)
class InputFormat:
    """How a model takes images: pixels a side, fit, the share of the center that is kept, and channels."""

    side: int
    fit: Fit
    keep: float
    channels: int


class LabelledImages(Protocol):
    """Images that are listed, but not read: the class of each, and its split ("" where the data do not say)."""

    labels: Sequence[str]
    splits: Sequence[str]
    paths: Sequence[Path]  # empty if the images are not files
    remarks: Sequence[str]

    def read(self, spec: str, rows: Vector, labels: Vector, wanted: InputFormat) -> tuple[Split, list[str]]:
        """The images at some rows, with these class numbers; and remarks on those that cannot be read."""


class LabelledFiles:
    """Image files of a folder or list."""

    def __init__(self, files: FileList) -> None:
        self.files = files
        self.labels, self.splits = files.labels, files.splits
        self.paths: Sequence[Path] = files.paths
        self.remarks: Sequence[str] = files.remarks

    def read(self, spec: str, rows: Vector, labels: Vector, wanted: InputFormat) -> tuple[Split, list[str]]:
        """Unreadable files are left out. Images that do not fit into memory stay in their files."""
        files = self.files.take(rows.tolist())
        images = FileImages(
            files.root, files.packed_names(), wanted.side, wanted.fit, wanted.keep, channels=wanted.channels
        )
        if image_shortage(len(rows), wanted.side, wanted.channels):
            return Split(images, labels), []
        pixels, broken = read_images(images)
        check_unreadable(spec, files.names, broken)
        kept = np.delete(np.arange(len(rows)), list(broken))
        return Split(pixels[kept] if broken else pixels, labels[kept]), unreadable_remark(files.names, broken)


class LabelledArrays:
    """Arrays of an ``.npz`` file."""

    labels: Sequence[str]
    splits: Sequence[str]
    paths: Sequence[Path] = ()
    remarks: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.labels, self.splits = npz.read_labels(path, needs_training=False)

    def read(self, spec: str, rows: Vector, labels: Vector, wanted: InputFormat) -> tuple[Split, list[str]]:
        """The arrays, resized; their channels stay as they are."""
        del spec
        pixels: Pixels = npz.read_resized(self.path, wanted.side, wanted.fit)[rows]
        return Split(pixels, labels), []


def list_labelled(path: Path, root: str | Path) -> LabelledImages:
    """The images of a path, none of them read; ``root`` is what paths of a list start from, as in ``open_path``.

    A folder may have class folders, or any of train, val and test with class folders in them.
    """
    if path.suffix.lower() == ".npz" and path.is_file():
        return LabelledArrays(path)
    return LabelledFiles(list_files(path, root, needs_training=False))
