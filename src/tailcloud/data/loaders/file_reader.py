"""Reads image files by row, in the background: ``fetch`` starts a read, ``wait`` waits for it."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.decoder_pool import CHUNK, Decoders
from tailcloud.data.loaders.decoder_process import Failures
from tailcloud.data.loaders.substitutes import Substitutes
from tailcloud.data.packed_names import Positions

FLOAT_BYTES = 4


def unpacked(packed: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The pixels, of this shape, and the aspects, which are stored before them."""
    start = shape[0] * FLOAT_BYTES
    return packed[start:].view(*shape), packed[:start].view(torch.float32)


@dataclass(frozen=True)
class Fetched:
    """Images that are being read: ``pixels`` [n, side, side, channels] as uint8 and ``aspects`` [n].

    Both are views of ``packed``, which is copied to a device at once. ``parts`` are the reads that fill it.
    """

    rows: Positions
    packed: Tensor
    pixels: Tensor
    aspects: Tensor
    parts: list["Future[Failures]"] = field(default_factory=list)

    @classmethod
    def allocate(cls, images: FileImages, rows: Positions, *, pinned: bool) -> "Fetched":
        """Memory for the images at some rows, pinned if they are copied to a GPU."""
        shape = len(rows), *images.shape[1:]
        packed = torch.empty(len(rows) * FLOAT_BYTES + prod(shape), dtype=torch.uint8, pin_memory=pinned)
        return cls(rows, packed, *unpacked(packed, shape))

    @property
    def done(self) -> bool:
        """Whether all images are read."""
        return all(part.done() for part in self.parts)

    def cancel(self) -> None:
        """Do not read what is not read yet."""
        for part in self.parts:
            part.cancel()


class Reader(Protocol):
    """Reads images of a split by row."""

    images: FileImages
    substitutes: Substitutes

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Start reading the images at these rows."""

    def wait(self, fetched: Fetched) -> None:
        """Wait until they are read."""


class FileReader:
    """Reads files when they are requested, in decoder processes."""

    def __init__(self, images: FileImages, labels: NDArray[np.int64], decoders: Decoders) -> None:
        self.images, self.decoders = images, decoders
        self.substitutes = Substitutes(images, labels)

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Start reading the images at these rows."""
        wanted = self.substitutes.instead(rows)
        fetched = Fetched.allocate(self.images, wanted, pinned=pinned)
        pixels, aspects = fetched.pixels.numpy(), fetched.aspects.numpy()
        for start in range(0, len(rows), CHUNK):
            here = slice(start, start + CHUNK)
            fetched.parts.append(self.decoders.start(self.images[wanted[here]], pixels[here], aspects[here]))
        return fetched

    def wait(self, fetched: Fetched) -> None:
        """Wait until they are read; an unreadable image is replaced by the next one of its class."""
        for number, part in enumerate(fetched.parts):
            for position, reason in part.result().items():
                at = number * CHUNK + position
                image, aspect = self.substitutes.replace(int(fetched.rows[at]), reason)
                fetched.pixels.numpy()[at], fetched.aspects[at] = image, aspect
