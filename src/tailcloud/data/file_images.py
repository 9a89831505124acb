"""Images that stay in their files until they are shown: what a part of a data set has where memory is too small."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.image_io import Picture, Unreadable, enough_for, fitted, middle, read_picture
from tailcloud.data.packed_names import Names, Positions
from tailcloud.data.read_options import Fit

THREADS = 8


@dataclass(frozen=True)
class FileImages:
    """Files under ``root``, and how one of them becomes pixels: [side, side, channels], brought there as ``fit`` says.

    ``keep`` is the share of the middle that is kept before: 0.875 with ``fit="crop"`` is the usual "resize to 256,
    cut 224 out of the middle" at a side of 224. Training images are stored squashed, the whole picture in a square, and
    their aspect is kept beside them, so that a random crop can be taken from the picture as it was.
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
        """As an array of these images would have it."""
        return len(self), self.side, self.side, self.channels

    @property
    def nbytes(self) -> int:
        """What they would take in memory."""
        return len(self) * self.side**2 * self.channels

    def __getitem__(self, positions: Positions) -> "FileImages":
        """The images at these positions."""
        return replace(self, names=self.names.take(np.asarray(positions, np.int64)))

    def path(self, row: int) -> Path:
        """The file of an image."""
        return self.root / os.fsdecode(self.names.raw(row))

    def some(self, rows: Positions) -> tuple[NDArray[np.uint8], Positions]:
        """The pixels of some images, read in threads, and the rows that they are of, without unreadable ones."""
        with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
            found = list(pool.map(self._attempt, rows.tolist()))
        pictures = [picture for picture in found if picture is not None]
        kept = rows[np.array([picture is not None for picture in found], bool)]
        return np.array(pictures, np.uint8).reshape(-1, *self.shape[1:]), kept

    def _attempt(self, row: int) -> Picture | None:
        try:
            return self.read(row)[0]
        except Unreadable:
            return None

    def read(self, row: int) -> tuple[Picture, float]:
        """The pixels of an image, and the aspect (width / height) of the picture that they were made from.

        Raises:
            Unreadable: as ``read_picture`` does.
        """
        picture = read_picture(self.path(row), self.channels, enough=enough_for((self.side, self.side), self.keep))
        height, width = picture.shape[:2]
        return fitted(middle(picture, self.keep), (self.side, self.side), self.fit), width / height
