"""A cache of decoded images: one file per split, decoded once and shared by all runs and processes.

``cached`` opens the cache of a split, and fills it first if it does not exist.

A cache is a folder named by its content, FOLDER/KEY: ``images.u8`` (uint8, one image after the other), ``aspects.f32``,
``checksums.u32`` (CRC-32 of the pixels of each image) and ``about.json``, which also lists the files that could not be
read. The folder gets its name when it is complete.
"""

import errno
import fcntl
import logging
import os
import stat
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4
from zlib import crc32

import numpy as np
import PIL
from numpy.typing import NDArray

from tailcloud.data.dataset import Labels
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.loaders.decoder_pool import CHUNK, Aspects, Decoders
from tailcloud.data.loaders.decoder_process import Failures
from tailcloud.data.loaders.file_reader import Fetched, FileReader
from tailcloud.data.loaders.substitutes import Substitutes
from tailcloud.data.memory import available_memory
from tailcloud.data.packed_names import Positions
from tailcloud.errors import TailcloudError
from tailcloud.files import TEMPORARY, expand_home, is_at, is_temporary, read_json, write_atomically, write_json
from tailcloud.formatting import magnitude

PIXELS, ASPECTS, CHECKSUMS, ABOUT = "images.u8", "aspects.f32", "checksums.u32", "about.json"
SHARED_MEMORY = Path("/dev/shm")
BLOCK = 4096  # files whose size and time a thread reads per task
THREADS = 4
COPY_BYTES = 1 << 24  # per task: fewer tasks, since each of them delays the thread that launches kernels
IMAGES_PER_WRITE = 4 * CHUNK
SECONDS_BETWEEN_NOTES = 5.0
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH

log = logging.getLogger(__name__)


def key_of(images: FileImages) -> str:
    """A digest of the files (names, sizes, times, inodes) and of how they are resized: other files, another key."""
    digest = sha256(f"3 {PIL.__version__} {images.shape} {images.fit} {images.keep}".encode())
    digest.update(images.names.digest().encode())
    with ThreadPoolExecutor(THREADS) as pool:
        for stamps in pool.map(lambda start: _stamps(images, start), range(0, len(images), BLOCK)):
            digest.update(stamps.tobytes())
    return digest.hexdigest()[:32]


def _stamps(images: FileImages, start: int) -> NDArray[np.int64]:
    """Size, time, device and inode of some files; −1 for a missing file."""
    rows = range(start, min(start + BLOCK, len(images)))
    return np.array([_stamp(images.path(row)) for row in rows], np.int64)


def _stamp(path: Path) -> tuple[int, int, int, int]:
    """What no other file has: files of two folders may have the same names, sizes and times."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name with a NUL, which no file can have
        return -1, -1, -1, -1
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino % 2**63  # which is unsigned


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
            if is_at(path, file.fileno()):
                yield
                return  # otherwise the lock file was removed while this process waited


@dataclass(frozen=True)
class OpenCache:
    """An open cache: memory-mapped pixels [N, side, side, channels] and aspects [N], and the unreadable images.

    ``checksums`` [N] are those of the pixels; ``checked`` [N] says which images have been compared with them.
    """

    place: Path
    pixels: Pixels
    aspects: Aspects
    checksums: NDArray[np.uint32]
    checked: NDArray[np.bool_]
    unreadable: Failures
    about: dict[str, Any]

    def check(self, rows: Positions) -> None:
        """Compare images with their checksums; each only once, because that takes as long as to copy it."""
        for row in rows[~self.checked[rows]].tolist():
            if crc32(self.pixels[row].data) != self.checksums[row]:
                raise damaged(self.place)
            self.checked[row] = True


def damaged(place: Path) -> TailcloudError:
    """The error for a cache that is not as it was written."""
    return TailcloudError(f"the cache in {place} is damaged; remove that folder to build it again")


def open_cache(place: Path, shape: tuple[int, ...]) -> OpenCache:
    """Open a complete cache of images [N, …]; a damaged one is refused. Their pixels are checked when they are read."""
    about = read_json(place / ABOUT)
    count = shape[:1]
    try:
        pixels = np.memmap(place / PIXELS, np.uint8, "r", shape=shape)
        aspects = np.memmap(place / ASPECTS, np.float32, "r", shape=count)
        checksums = np.memmap(place / CHECKSUMS, np.uint32, "r", shape=count)
        unreadable = {int(row): str(reason) for row, reason in about["broken"].items()}
        whole = about["aspects"] == crc32(aspects.data)
    except (OSError, ValueError, KeyError, AttributeError):
        raise damaged(place) from None
    if not whole:
        raise damaged(place)
    arrays = np.asarray(pixels), np.asarray(aspects), np.asarray(checksums), np.zeros(count, bool)
    return OpenCache(place, *arrays, unreadable, about)


class CachedReader:
    """Copies images from a cache, in threads; ``reported`` says that its unreadable images were reported before."""

    def __init__(self, images: FileImages, labels: Labels, cache: OpenCache, *, reported: bool = False) -> None:
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
        self.cache.check(rows)
        np.take(self.cache.pixels, rows, axis=0, out=fetched.pixels.numpy()[here], mode="clip")
        np.take(self.cache.aspects, rows, out=fetched.aspects.numpy()[here], mode="clip")
        return {}


def cached(images: FileImages, labels: Labels, decoders: Decoders, where: str) -> CachedReader:
    """A reader of the cache in the folder ``where``, or in memory ("ram"); a missing cache is filled first."""
    in_memory, key = where == "ram", key_of(images)
    place = (_make_memory_folder() if in_memory else _folder(expand_home(where))) / key
    with locked(place):
        if new := not place.is_dir():
            _check_room(images, place.parent, in_memory=in_memory)
            _build(images, labels, decoders, place)
        reader = CachedReader(images, labels, open_cache(place, images.shape), reported=new)
    if in_memory and _is_ours(reader.cache.about.get("process")):
        weakref.finalize(reader, _free, place)
    return reader


def _folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TailcloudError(
            f"data.cache = {folder} cannot be created ({error.strerror}); choose another folder"
        ) from None
    return folder


def memory_folder() -> Path:
    """Where ``data.cache = "ram"`` is: a folder in shared memory, for all processes of this user."""
    return SHARED_MEMORY / f"tailcloud-{os.getuid()}"


def _make_memory_folder() -> Path:
    if not SHARED_MEMORY.is_dir():
        raise TailcloudError(f'data.cache = "ram" needs {SHARED_MEMORY}, which is not on this system; name a folder')
    folder = memory_folder()
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & OTHERS_MAY_WRITE:
        raise TailcloudError(
            f'data.cache = "ram" uses {folder}, which is not a folder that only you can write to: somebody else could '
            "change the images in it; remove it, or name a folder for data.cache"
        )
    return folder


def _check_room(images: FileImages, folder: Path, *, in_memory: bool) -> None:
    """Refuse a cache that would not fit, before anything is read."""
    free, where = free_bytes(folder), str(folder)
    if in_memory:
        free, where = min(free, available_memory() or free), f"{SHARED_MEMORY} and memory"
    if images.nbytes >= free:
        raise TailcloudError(
            f"a cache of {len(images):,} images needs {magnitude(images.nbytes)}B, but only {magnitude(free)}B are "
            f"free in {where}; choose another folder for data.cache, or a smaller data.size"
        )


def free_bytes(folder: Path) -> int:
    """The free space of a folder's disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _build(images: FileImages, labels: Labels, decoders: Decoders, place: Path) -> None:
    """Fill a cache in a temporary folder, then rename it; after a failure nothing is left behind."""
    for old in place.parent.glob(f"{TEMPORARY}{place.name}-*"):  # of a process that was killed; this one has the lock
        _remove(old)
    temporary = place.with_name(f"{TEMPORARY}{place.name}-{uuid4().hex}")
    temporary.mkdir()
    try:
        _fill(images, labels, decoders, temporary)
        temporary.rename(place)
    except OSError as error:
        _remove(temporary)
        if error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}:
            raise TailcloudError(
                f"the cache of {magnitude(images.nbytes)}B in {place.parent} could not be written ({error.strerror}); "
                "nothing was left behind. Free some space, or choose another folder for data.cache"
            ) from None
        raise
    except BaseException:
        _remove(temporary)
        raise


def _fill(images: FileImages, labels: Labels, decoders: Decoders, folder: Path) -> None:
    """Write the files of a cache."""
    reader = FileReader(images, labels, decoders)
    aspects, checksums = np.ones(len(images), np.float32), np.zeros(len(images), np.uint32)
    with (folder / PIXELS).open("xb") as file:
        if hasattr(os, "posix_fallocate"):  # a full disk fails now instead of after hours
            os.posix_fallocate(file.fileno(), 0, images.nbytes)
        for start, fetched in _with_notes(_fetched(reader), len(images)):
            for number, part in enumerate(fetched.parts):
                for position, reason in part.result().items():
                    reader.substitutes.report(start + number * CHUNK + position, reason)
            pixels, here = fetched.pixels.numpy(), slice(start, start + len(fetched.rows))
            file.write(pixels.data)
            aspects[here] = fetched.aspects.numpy()
            checksums[here] = [crc32(image.data) for image in pixels]
        file.flush()
        os.fsync(file.fileno())
    write_atomically(folder / ASPECTS, aspects.tobytes())
    write_atomically(folder / CHECKSUMS, checksums.tobytes())
    about = {"process": os.getpid(), "shape": images.shape, "fit": images.fit, "keep": images.keep}
    broken = {str(row): reason for row, reason in reader.substitutes.reasons.items()}
    write_json(folder / ABOUT, about | {"aspects": crc32(aspects.data), "broken": broken})


def _fetched(reader: FileReader) -> Iterator[tuple[int, Fetched]]:
    """All images in order, some at a time; enough are requested to keep every process busy."""
    waiting: deque[tuple[int, Fetched]] = deque()
    try:
        for start in range(0, len(reader.images), IMAGES_PER_WRITE):
            rows = np.arange(start, min(start + IMAGES_PER_WRITE, len(reader.images)))
            waiting.append((start, reader.fetch(rows)))
            if len(waiting) > 1 + reader.decoders.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, fetched in waiting:
            fetched.cancel()


def _with_notes(fetched_parts: Iterator[tuple[int, Fetched]], images: int) -> Iterator[tuple[int, Fetched]]:
    """The same images, with a note on the progress every few seconds."""
    began = last = monotonic()
    for start, fetched in fetched_parts:
        yield start, fetched
        done, now = start + len(fetched.rows), monotonic()
        if now - last > SECONDS_BETWEEN_NOTES:
            last, rate = now, done / (now - began)
            left = (images - done) / rate
            log.info(
                "%s of %s images are in the cache, %s per second, %s s left",
                *(f"{number:,.0f}" for number in (done, images, rate, left)),
            )


def _remove(folder: Path) -> None:
    """Delete a cache: its own files, and the folder if nothing else is in it."""
    unfinished = filter(is_temporary, folder.glob(f"{TEMPORARY}*"))
    for file in (*(folder / name for name in (ABOUT, CHECKSUMS, ASPECTS, PIXELS)), *unfinished):
        file.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _free(place: Path) -> None:
    """Free the memory of a cache; a process that still reads it keeps it until it is done."""
    with suppress(OSError), locked(place):
        _remove(place)
        place.with_suffix(".lock").unlink(missing_ok=True)


def _is_ours(process: object) -> bool:
    """Whether this process filled a cache in memory, or the process that did has ended."""
    if not isinstance(process, int) or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
