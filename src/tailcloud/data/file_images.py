"""``FileImages``: images that stay in their files until they are needed, for data that do not fit into memory."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailcloud.data.image_io import ImageArray, center_crop, decode_size, read_image, resize_image
from tailcloud.data.packed_names import Names, Positions
from tailcloud.data.read_options import Fit


@dataclass(frozen=True)
class FileImages:
    """Files under ``root``, each of which is read as [side, side, channels], resized as ``fit`` says.

    ``keep`` is the share of the center that is kept before resizing: 0.875 with ``fit="crop"`` is the usual "resize to
    256, center crop of 224" at a side of 224.
    """

    root: Path
    names: Names
    side: int
    fit: Fit = "crop"
    keep: float = 1.0
    channels: int = 3

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of an array of these images."""
        return len(self), self.side, self.side, self.channels

    @property
    def nbytes(self) -> int:
        """The bytes of that array."""
        return len(self) * self.side**2 * self.channels

    def __getitem__(self, positions: Positions) -> "FileImages":
        """The images at these positions."""
        return replace(self, names=self.names.take(np.asarray(positions, np.int64)))

    def path(self, row: int) -> Path:
        """The file of an image."""
        return self.root / os.fsdecode(self.names.raw(row))

    def read(self, row: int) -> tuple[ImageArray, float]:
        """The pixels of an image, and the aspect ratio (width / height) of the image in its file.

        Raises:
            Unreadable: as ``read_image`` does.
        """
        size = (self.side, self.side)
        image = read_image(self.path(row), self.channels, min_side=decode_size(size, self.keep))
        height, width = image.shape[:2]
        return resize_image(center_crop(image, self.keep), size, self.fit), width / height


class UndecodedImages(FileImages):
    """Images that are decoded into memory when training starts; a recipe is chosen before, from a few of them."""
