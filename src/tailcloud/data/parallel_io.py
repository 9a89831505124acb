"""Many image files at once: headers first, then pixels, in threads; what cannot be read is named."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import NOT_THERE, Header, Unreadable, picture_at, read_header
from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError
from tailcloud.formatting import number, some_of

BLOCK, THREADS = 64, 8
SECONDS_BETWEEN_NOTES = 5.0
MOST_UNREADABLE = 5.0  # percent

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def read_headers(paths: Sequence[Path]) -> list[Header | Unreadable]:
    """Size and mode of every file, or why it cannot be read."""
    return list(_each("looked at", paths, lambda _, path: read_header(path)))


def read_pictures(
    paths: Sequence[Path], channels: int, size: int, fit: Fit
) -> tuple[NDArray[np.uint8], dict[int, Unreadable]]:
    """The pixels of every file [N, size, size, channels], and those (by position) that cannot be read: they are 0."""
    images = np.zeros((len(paths), size, size, channels), np.uint8)

    def fill(position: int, path: Path) -> None:
        images[position] = picture_at(path, channels, (size, size), fit)

    found = enumerate(_each("read", paths, fill))
    return images, {position: result for position, result in found if isinstance(result, Unreadable)}


def read_files(files: FileImages) -> tuple[NDArray[np.uint8], dict[int, Unreadable]]:
    """The pixels of images that stayed in their files, and those (by position) that cannot be read: they are 0."""
    images = np.zeros(files.shape, np.uint8)

    def fill(position: int, _: Path) -> None:
        images[position] = files.read(position)[0]

    found = enumerate(_each("read", [files.path(row) for row in range(len(files))], fill))
    return images, {position: result for position, result in found if isinstance(result, Unreadable)}


def _each(what: str, paths: Sequence[Path], work: Callable[[int, Path], Result]) -> Iterator[Result | Unreadable]:
    """``work(position, path)`` for every path, in order, from threads; with a note every few seconds."""

    def block(start: int) -> list[Result | Unreadable]:
        return [_attempt(work, at, paths[at]) for at in range(start, min(start + BLOCK, len(paths)))]

    pool, last, done = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)), monotonic(), 0
    try:
        for results in pool.map(block, range(0, len(paths), BLOCK)):
            yield from results
            done += len(results)
            if monotonic() - last > SECONDS_BETWEEN_NOTES:
                last = monotonic()
                log.info("%s of %s images %s", f"{done:,}", f"{len(paths):,}", what)
    finally:
        pool.shutdown(cancel_futures=True)


def _attempt(work: Callable[[int, Path], Result], position: int, path: Path) -> Result | Unreadable:
    try:
        return work(position, path)
    except Unreadable as error:
        return error


def unreadable_remark(spec: str, names: Sequence[str], broken: dict[int, Unreadable]) -> list[str]:
    """A remark that names the files that are left out; more than 5 % of them stop everything."""
    if not broken:
        return []
    told = some_of([f"{names[position]} ({error.why})" for position, error in sorted(broken.items())])
    share = 100 * len(broken) / len(names)
    if share > MOST_UNREADABLE:
        first = broken[min(broken)]
        way_out = "mend them or take them out"
        if first.why == NOT_THERE:
            way_out = f"the first is looked for at {first.path}; --root names the folder that a list starts from"
        raise TailcloudError(
            f"{spec}: {len(broken):,} of {len(names):,} images ({number(share, 0)} %, more than "
            f"{number(MOST_UNREADABLE, 0)} %) cannot be read: {told}; {way_out}"
        )
    return [f"{len(broken):,} of {len(names):,} images cannot be read and are left out: {told}."]
