"""Stored images by their rows: asked for first, waited for later."""

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
from tailcloud.data.loaders.decoder_pool import CHUNK, Decoders, Failures
from tailcloud.data.loaders.substitutes import Substitutes
from tailcloud.data.packed_names import Positions

FLOAT_BYTES = 4


def unpacked(packed: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The pixels, of this shape, and the aspects that are packed before them."""
    start = shape[0] * FLOAT_BYTES
    return packed[start:].view(*shape), packed[:start].view(torch.float32)


@dataclass(frozen=True)
class Fetched:
    """Images on their way: ``pixels`` [n, side, side, channels] as uint8 and ``aspects`` [n], filled by others.

    Both are parts of ``packed``, which goes to a device in one piece.
    """

    rows: Positions
    packed: Tensor
    pixels: Tensor
    aspects: Tensor
    parts: list["Future[Failures]"] = field(default_factory=list)

    @classmethod
    def room(cls, images: FileImages, rows: Positions, *, pinned: bool) -> "Fetched":
        """Room for the images at some rows, in pinned memory where they go on to a GPU."""
        shape = len(rows), *images.shape[1:]
        packed = torch.empty(len(rows) * FLOAT_BYTES + prod(shape), dtype=torch.uint8, pin_memory=pinned)
        return cls(rows, packed, *unpacked(packed, shape))

    @property
    def done(self) -> bool:
        """Whether nobody would have to wait."""
        return all(part.done() for part in self.parts)

    def cancel(self) -> None:
        """Nobody wants them any more."""
        for part in self.parts:
            part.cancel()


class Reader(Protocol):
    """Where the stored images of a part come from."""

    images: FileImages
    substitutes: Substitutes

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Ask for the images at these rows."""

    def wait(self, fetched: Fetched) -> None:
        """Until they are there."""


class FileReader:
    """Reads files as they are asked for, in processes."""

    def __init__(self, images: FileImages, labels: NDArray[np.int64], decoders: Decoders) -> None:
        self.images, self.decoders = images, decoders
        self.substitutes = Substitutes(images, labels)

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Ask for the images at these rows."""
        wanted = self.substitutes.instead(rows)
        fetched = Fetched.room(self.images, wanted, pinned=pinned)
        pixels, aspects = fetched.pixels.numpy(), fetched.aspects.numpy()
        for start in range(0, len(rows), CHUNK):
            here = slice(start, start + CHUNK)
            fetched.parts.append(self.decoders.start(self.images[wanted[here]], pixels[here], aspects[here]))
        return fetched

    def wait(self, fetched: Fetched) -> None:
        """Until they are there; an image that cannot be read is replaced by the next one of its class."""
        for number, part in enumerate(fetched.parts):
            for position, why in part.result().items():
                at = number * CHUNK + position
                picture, aspect = self.substitutes.replace(int(fetched.rows[at]), why)
                fetched.pixels.numpy()[at], fetched.aspects[at] = picture, aspect
