"""Filling a cache: every file is decoded once, by all processes, before the first epoch."""

import errno
import json
import logging
import os
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.cache import ABOUT, ASPECTS, PIXELS, CachedReader, free_bytes, key_of, locked, open_cache
from tailcloud.data.loaders.decoder_pool import CHUNK, Decoders
from tailcloud.data.loaders.file_reader import Fetched, FileReader
from tailcloud.data.memory import available_memory
from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, TEMPORARY
from tailcloud.formatting import magnitude

MEMORY = Path("/dev/shm")
SECONDS_BETWEEN_NOTES = 5.0
AT_ONCE = 4 * CHUNK  # images that are written at a time

log = logging.getLogger(__name__)
Labels = NDArray[np.int64]


def cached(images: FileImages, labels: Labels, decoders: Decoders, where: str) -> CachedReader:
    """Images out of a cache in the folder ``where``, or in memory ("ram"); it is filled first where it is not there."""
    in_memory, key = where == "ram", key_of(images)
    place = (_memory_folder() if in_memory else _folder(Path(where).expanduser())) / key
    with locked(place):
        if fresh := not place.is_dir():
            _check_room(images, place.parent, in_memory=in_memory)
            _build(images, labels, decoders, place)
        reader = CachedReader(images, labels, open_cache(place, images), told=fresh)
    if in_memory and _is_ours(reader.stored.about.get("process")):
        weakref.finalize(reader, _give_back, place)
    return reader


def _folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TailcloudError(
            f"data.cache = {folder} cannot be a folder ({error.strerror}); choose another one"
        ) from None
    return folder


def _memory_folder() -> Path:
    """Where memory looks like files, for all processes of a person on this machine."""
    if not MEMORY.is_dir():
        raise TailcloudError(f'data.cache = "ram" needs {MEMORY}, which is not on this system; give a folder instead')
    return _folder(MEMORY / f"tailcloud-{os.getuid()}")


def _check_room(images: FileImages, folder: Path, *, in_memory: bool) -> None:
    """Refuse a cache that would not fit, before anything is read."""
    free, asked = free_bytes(folder), str(folder)
    if in_memory:
        free, asked = min(free, available_memory() or free), f"{MEMORY} and memory"
    if images.nbytes >= free:
        raise TailcloudError(
            f"a cache of {len(images):,} images takes {magnitude(images.nbytes)}B, and only {magnitude(free)}B are "
            f"free in {asked}; choose another folder for data.cache, or a smaller data.size"
        )


def _build(images: FileImages, labels: Labels, decoders: Decoders, place: Path) -> None:
    """Fill a cache beside its place and move it there; whatever goes wrong, nothing of it is left."""
    for left in place.parent.glob(f"{TEMPORARY}{place.name}-*"):  # of one that was killed; we have its lock
        _remove(left)
    growing = place.with_name(f"{TEMPORARY}{place.name}-{uuid4().hex}")
    growing.mkdir()
    try:
        _fill(images, labels, decoders, growing)
        growing.rename(place)
    except OSError as error:
        _remove(growing)
        if error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}:
            raise TailcloudError(
                f"the cache of {magnitude(images.nbytes)}B in {place.parent} could not be written ({error.strerror}); "
                "nothing of it is left. Free some space, or choose another folder for data.cache"
            ) from None
        raise
    except BaseException:
        _remove(growing)
        raise


def _fill(images: FileImages, labels: Labels, decoders: Decoders, folder: Path) -> None:
    """Write all three files of a cache."""
    reader = FileReader(images, labels, decoders)
    aspects = np.ones(len(images), np.float32)
    with (folder / PIXELS).open("xb") as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is found now, and not after hours
            os.posix_fallocate(file.fileno(), 0, images.nbytes)
        for start, fetched in _noted(_fetched(reader), len(images)):
            for number, part in enumerate(fetched.parts):
                for position, why in part.result().items():
                    reader.substitutes.report(start + number * CHUNK + position, why)
            file.write(fetched.pixels.numpy().data)
            aspects[start : start + len(fetched.rows)] = fetched.aspects.numpy()
        file.flush()
        os.fsync(file.fileno())
    aspects.tofile(folder / ASPECTS)
    about = {"format": FORMAT, "process": os.getpid(), "shape": images.shape, "fit": images.fit, "keep": images.keep}
    broken = {str(row): why for row, why in reader.substitutes.reasons.items()}
    (folder / ABOUT).write_text(json.dumps(about | {"broken": broken}))


def _fetched(reader: FileReader) -> Iterator[tuple[int, Fetched]]:
    """All images in order, a few at a time, with every process kept busy."""
    waiting: deque[tuple[int, Fetched]] = deque()
    try:
        for start in range(0, len(reader.images), AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, len(reader.images)))
            waiting.append((start, reader.fetch(rows)))
            if len(waiting) > 1 + reader.decoders.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, fetched in waiting:
            fetched.cancel()


def _noted(pieces: Iterator[tuple[int, Fetched]], images: int) -> Iterator[tuple[int, Fetched]]:
    """The same, with a note every few seconds."""
    began = last = monotonic()
    for start, fetched in pieces:
        yield start, fetched
        done, now = start + len(fetched.rows), monotonic()
        if now - last > SECONDS_BETWEEN_NOTES:
            last, rate = now, done / (now - began)
            left = (images - done) / rate
            log.info(
                "%s of %s images in the cache, %s a second, %s s left", f"{done:,}", f"{images:,}", *_whole(rate, left)
            )


def _whole(*numbers: float) -> list[str]:
    return [f"{number:,.0f}" for number in numbers]


def _remove(folder: Path) -> None:
    """Take a cache away: its own files, and the folder if nothing else is in it."""
    for name in (ABOUT, ASPECTS, PIXELS):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _give_back(place: Path) -> None:
    """Free the memory of a cache; whoever still reads it keeps it until then."""
    with suppress(OSError), locked(place):
        _remove(place)
        place.with_suffix(".lock").unlink(missing_ok=True)


def _is_ours(process: object) -> bool:
    """Whether this process filled a cache in memory, or the one that did is gone."""
    if not isinstance(process, int) or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
