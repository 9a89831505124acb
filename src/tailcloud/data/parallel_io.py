"""Many image files at once: headers or pixels, read by threads; and the message on files that cannot be read."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import MISSING, Header, Unreadable, read_header, read_image_at_size
from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError
from tailcloud.formatting import number, some_of

BLOCK, THREADS = 64, 8
SECONDS_BETWEEN_NOTES = 5.0
MAX_UNREADABLE = 5.0  # percent

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def read_headers(paths: Sequence[Path]) -> list[Header | Unreadable]:
    """Size and mode of every file, or why it cannot be read."""
    return list(_each("image headers", paths, lambda _, path: read_header(path)))


def read_images(
    paths: Sequence[Path], channels: int, size: int, fit: Fit
) -> tuple[NDArray[np.uint8], dict[int, Unreadable]]:
    """The pixels of every file [N, size, size, channels], and the positions of unreadable ones, which are black."""
    images = np.zeros((len(paths), size, size, channels), np.uint8)

    def fill(position: int, path: Path) -> None:
        images[position] = read_image_at_size(path, channels, (size, size), fit)

    return images, _unreadable(_each("images", paths, fill))


def read_file_images(files: FileImages) -> tuple[NDArray[np.uint8], dict[int, Unreadable]]:
    """The pixels of images that stayed in their files, and the positions of unreadable ones, which are black."""
    images = np.zeros(files.shape, np.uint8)

    def fill(position: int, _: Path) -> None:
        images[position] = files.read(position)[0]

    return images, _unreadable(_each("images", [files.path(row) for row in range(len(files))], fill))


def _unreadable(results: Iterator[Result | Unreadable]) -> dict[int, Unreadable]:
    return {position: result for position, result in enumerate(results) if isinstance(result, Unreadable)}


def _each(what: str, paths: Sequence[Path], work: Callable[[int, Path], Result]) -> Iterator[Result | Unreadable]:
    """``work(position, path)`` for every path, in order, from threads; progress is logged every few seconds."""

    def block(start: int) -> list[Result | Unreadable]:
        return [_attempt(work, at, paths[at]) for at in range(start, min(start + BLOCK, len(paths)))]

    pool, last, done = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)), monotonic(), 0
    try:
        for results in pool.map(block, range(0, len(paths), BLOCK)):
            yield from results
            done += len(results)
            if monotonic() - last > SECONDS_BETWEEN_NOTES:
                last = monotonic()
                log.info("%s of %s %s read", f"{done:,}", f"{len(paths):,}", what)
    finally:
        pool.shutdown(cancel_futures=True)


def _attempt(work: Callable[[int, Path], Result], position: int, path: Path) -> Result | Unreadable:
    try:
        return work(position, path)
    except Unreadable as error:
        return error


def check_unreadable(spec: str, names: Sequence[str], broken: Mapping[int, Unreadable]) -> None:
    """Refuse a data set of which more than 5 % of the files (``names``) are ``broken``, which is keyed by position."""
    share = 100 * len(broken) / max(1, len(names))
    if share <= MAX_UNREADABLE:
        return
    first = broken[min(broken)]
    way_out = "repair or remove them"
    if first.why == MISSING:
        way_out = f"the first was expected at {first.path}; --root sets the folder that paths of a list start from"
    raise TailcloudError(
        f"{spec}: {len(broken):,} of {len(names):,} images ({number(share, 0)} %, more than "
        f"{number(MAX_UNREADABLE, 0)} %) cannot be read: {_some(names, broken)}; {way_out}"
    )


def unreadable_remark(
    names: Sequence[str],
    broken: Mapping[int, Unreadable],
    *,
    what: str = "images",
    outcome: str = " and are left out",
) -> list[str]:
    """A remark that names the files that cannot be read; none if there are no such files."""
    if not broken:
        return []
    return [f"{len(broken):,} of {len(names):,} {what} cannot be read{outcome}: {_some(names, broken)}."]


def _some(names: Sequence[str], broken: Mapping[int, Unreadable]) -> str:
    return some_of([f"{names[position]} ({error.why})" for position, error in sorted(broken.items())])
