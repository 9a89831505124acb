"""A cache of decoded images: one file per split, decoded once and shared by all runs and processes.

A cache is a folder named by its content, FOLDER/KEY: ``images.u8`` (uint8, one image after the other), ``aspects.f32``
and ``about.json``, which also lists the files that could not be read. The folder gets its name when it is complete.
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
BLOCK = 4096  # files whose size and time a thread reads per task
THREADS = 4
COPY_BYTES = 1 << 24  # per task: fewer tasks, since each of them delays the thread that launches kernels

log = logging.getLogger(__name__)


def key_of(images: FileImages) -> str:
    """A digest of the files (names, sizes, times) and of how they are resized: other content gives another key."""
    digest = sha256(f"1 {PIL.__version__} {images.shape} {images.fit} {images.keep}".encode())
    digest.update(images.names.digest().encode())
    with ThreadPoolExecutor(THREADS) as pool:
        for stamps in pool.map(lambda start: _stamps(images, start), range(0, len(images), BLOCK)):
            digest.update(stamps.tobytes())
    return digest.hexdigest()[:32]


def _stamps(images: FileImages, start: int) -> NDArray[np.int64]:
    """Size and time of some files; −1 and −1 for a missing file."""
    rows = range(start, min(start + BLOCK, len(images)))
    return np.array([_stamp(images.path(row)) for row in rows], np.int64)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class OpenCache:
    """An open cache: memory-mapped pixels [N, side, side, channels] and aspects [N], and the unreadable images."""

    place: Path
    pixels: Pixels
    aspects: Aspects
    unreadable: Failures
    about: dict[str, Any]


def open_cache(place: Path, images: FileImages) -> OpenCache:
    """Open a complete cache; a damaged one is refused."""
    about = read_json(place / ABOUT)
    try:
        pixels = np.memmap(place / PIXELS, np.uint8, "r", shape=images.shape)
        aspects = np.memmap(place / ASPECTS, np.float32, "r", shape=(len(images),))
        unreadable = {int(row): str(reason) for row, reason in about["broken"].items()}
    except (OSError, ValueError, KeyError, AttributeError):
        raise TailcloudError(f"the cache in {place} is damaged; remove that folder to build it again") from None
    return OpenCache(place, np.asarray(pixels), np.asarray(aspects), unreadable, about)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Only one process at a time builds a cache; the others wait until it is complete."""
    path = place.with_suffix(".lock")
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("waiting for another process that is filling the cache in %s", place)
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file.fileno()):
                yield
                return  # otherwise the lock file was removed while we waited


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is still the file at a path; other processes may remove it at any time."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


class CachedReader:
    """Copies images from a cache, in threads; ``reported`` says that its unreadable images were reported before."""

    def __init__(
        self, images: FileImages, labels: NDArray[np.int64], cache: OpenCache, *, reported: bool = False
    ) -> None:
        self.images, self.cache = images, cache
        self.substitutes = Substitutes(images, labels)
        self.substitutes.replace_all(cache.unreadable, reported=reported)
        self.threads = ThreadPoolExecutor(THREADS, "copying")

    def fetch(self, rows: Positions, *, pinned: bool = False) -> Fetched:
        """Start copying the images at these rows."""
        fetched = Fetched.allocate(self.images, self.substitutes.instead(rows), pinned=pinned)
        each = max(1, COPY_BYTES * len(self.images) // max(1, self.images.nbytes))
        for start in range(0, len(rows), each):
            fetched.parts.append(self.threads.submit(self._copy, fetched, slice(start, start + each)))
        return fetched

    def wait(self, fetched: Fetched) -> None:
        """Wait until they are copied."""
        for part in fetched.parts:
            part.result()

    def _copy(self, fetched: Fetched, here: slice) -> Failures:
        rows = fetched.rows[here]
        np.take(self.cache.pixels, rows, axis=0, out=fetched.pixels.numpy()[here], mode="clip")
        np.take(self.cache.aspects, rows, out=fetched.aspects.numpy()[here], mode="clip")
        return {}


def free_bytes(folder: Path) -> int:
    """The free space of a folder's disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
