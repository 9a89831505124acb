"""Decoded images of a part, kept in one file: read once, decoded once, and shared by every run and process that asks.

A cache is a folder named by its content, FOLDER/KEY: ``images.u8`` (uint8, image behind image), ``aspects.f32`` and
``about.json``, which also says which files could not be read. It appears under its name when it is whole.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.decoder_pool import Aspects, Failures, Pixels
from tailcloud.data.loaders.file_reader import Fetched
from tailcloud.data.loaders.substitutes import Substitutes
from tailcloud.data.packed_names import Positions
from tailcloud.errors import TailcloudError
from tailcloud.files import read_json

PIXELS, ASPECTS, ABOUT = "images.u8", "aspects.f32", "about.json"
BLOCK = 4096  # files that a thread looks at
THREADS = 4  # that copy, or look at files
AT_ONCE = 1 << 24  # bytes that one of them copies: fewer turns, since each turn holds up who launches kernels

log = logging.getLogger(__name__)


def key_of(images: FileImages) -> str:
    """A digest of the files (their names, sizes and times) and of what is made of them: other content, other key."""
    digest = sha256(f"1 {PIL.__version__} {images.shape} {images.fit} {images.keep}".encode())
    digest.update(images.names.digest().encode())
    with ThreadPoolExecutor(THREADS) as pool:
        for stamps in pool.map(lambda start: _stamps(images, start), range(0, len(images), BLOCK)):
            digest.update(stamps.tobytes())
    return digest.hexdigest()[:32]


def _stamps(images: FileImages, start: int) -> NDArray[np.int64]:
    """Size and time of some files; of one that is not there both are −1."""
    rows = range(start, min(start + BLOCK, len(images)))
    return np.array([_stamp(images.path(row)) for row in rows], np.int64)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class Stored:
    """A cache that is open: pixels [N, side, side, channels] and aspects [N] as maps of files, and what is missing."""

    place: Path
    pixels: Pixels
    aspects: Aspects
    broken: Failures
    about: dict[str, Any]


def open_cache(place: Path, images: FileImages) -> Stored:
    """A cache that was built; one that somebody damaged since is refused."""
    about = read_json(place / ABOUT)
    try:
        pixels = np.memmap(place / PIXELS, np.uint8, "r", shape=images.shape)
        aspects = np.memmap(place / ASPECTS, np.float32, "r", shape=(len(images),))
        broken = {int(row): str(why) for row, why in about["broken"].items()}
    except (OSError, ValueError, KeyError, AttributeError):
        raise TailcloudError(f"the cache in {place} is damaged; remove that folder, and it is built again") from None
    return Stored(place, np.asarray(pixels), np.asarray(aspects), broken, about)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Only one process at a time builds a cache; the others wait, and find it whole."""
    path = place.with_suffix(".lock")
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("waiting for another process that fills the cache in %s", place)
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file.fileno()):
                yield
                return  # else it was taken away while we waited


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is still the one at a path, from which others may take it at any moment."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


class CachedReader:
    """Copies images out of a cache, in threads; perhaps people were ``told`` which could not be read."""

    def __init__(self, images: FileImages, labels: NDArray[np.int64], stored: Stored, *, told: bool = False) -> None:
        self.images, self.stored = images, stored
        self.substitutes = Substitutes(images, labels)
        self.substitutes.settle(stored.broken, told=told)
        self.threads = ThreadPoolExecutor(THREADS, "copying")

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Ask for the images at these rows."""
        fetched = Fetched.room(self.images, self.substitutes.instead(rows), pinned=pinned)
        each = max(1, AT_ONCE * len(self.images) // max(1, self.images.nbytes))
        for start in range(0, len(rows), each):
            fetched.parts.append(self.threads.submit(self._copy, fetched, slice(start, start + each)))
        return fetched

    def wait(self, fetched: Fetched) -> None:
        """Until they are there."""
        for part in fetched.parts:
            part.result()

    def _copy(self, fetched: Fetched, here: slice) -> Failures:
        rows = fetched.rows[here]
        np.take(self.stored.pixels, rows, axis=0, out=fetched.pixels.numpy()[here], mode="clip")
        np.take(self.stored.aspects, rows, out=fetched.aspects.numpy()[here], mode="clip")
        return {}


def free_bytes(folder: Path) -> int:
    """What can still be written in a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
