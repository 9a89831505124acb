"""Many image files at once: headers or pixels, read by processes; and the message on files that cannot be read."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import MISSING, Header, Unreadable
from tailcloud.data.loaders.decoder_pool import CHUNK, DecoderEnded, pool_for
from tailcloud.errors import TailcloudError
from tailcloud.formatting import number, some_of

HEADERS = 64  # files per request; a header takes a tenth of a millisecond
WAITING = 4  # requests per worker
SECONDS_BETWEEN_NOTES = 5.0
MAX_UNREADABLE = 5.0  # percent

log = logging.getLogger(__name__)
Result = TypeVar("Result")


def read_headers(files: FileImages) -> list[Header | Unreadable]:
    """Size and mode of every file, or why it cannot be read."""
    headers = list[Header | Unreadable]()
    with pool_for(len(files)) as pool:

        def start(rows: range) -> "Future[list[Header | str]]":
            return pool.start_headers(files[np.arange(rows.start, rows.stop)])

        for rows, found in _in_order("image headers", len(files), HEADERS, WAITING * pool.workers, start):
            headers += [
                each if isinstance(each, Header) else Unreadable(files.path(row), each)
                for row, each in zip(rows, found, strict=True)
            ]
    return headers


def read_images(files: FileImages) -> tuple[NDArray[np.uint8], dict[int, Unreadable]]:
    """The pixels of every file [N, side, side, channels], and the positions of unreadable ones, which are black."""
    images, broken = np.zeros(files.shape, np.uint8), dict[int, Unreadable]()
    with pool_for(len(files)) as pool:

        def start(rows: range) -> "Future[dict[int, str]]":
            here = slice(rows.start, rows.stop)
            return pool.start(files[np.arange(rows.start, rows.stop)], images[here], np.empty(len(rows), np.float32))

        for rows, failures in _in_order("images", len(files), CHUNK, WAITING * pool.workers, start):
            broken |= {rows[at]: Unreadable(files.path(rows[at]), why) for at, why in failures.items()}
    return images, broken


def _in_order(
    what: str, files: int, each: int, ahead: int, start: Callable[[range], "Future[Result]"]
) -> Iterator[tuple[range, Result]]:
    """Results of requests for ``each`` files, in order, of which ``ahead`` wait; progress is logged.

    Raises:
        TailcloudError: a process that reads files was killed.
    """
    waiting, last = deque[tuple[range, "Future[Result]"]](), monotonic()
    blocks = (range(first, min(first + each, files)) for first in range(0, files, each))
    try:
        waiting.extend((rows, start(rows)) for rows in islice(blocks, ahead))
        while waiting:
            rows, future = waiting.popleft()
            result = future.result()
            waiting.extend((following, start(following)) for following in islice(blocks, 1))
            yield rows, result
            if monotonic() - last > SECONDS_BETWEEN_NOTES:
                last = monotonic()
                log.info("%s of %s %s read", f"{rows.stop:,}", f"{files:,}", what)
    except DecoderEnded as error:
        raise TailcloudError(
            f"a process that reads {what} ended ({error.reason}); memory may be short: end other programs, or read "
            "smaller images (data.size), and run the command again"
        ) from None


def check_unreadable(spec: str, names: Sequence[str], broken: Mapping[int, Unreadable]) -> None:
    """Refuse a data set of which more than 5 % of the files (``names``) are ``broken``, which is keyed by position."""
    share = 100 * len(broken) / max(1, len(names))
    if share <= MAX_UNREADABLE:
        return
    first = broken[min(broken)]
    way_out = "repair or remove them"
    if first.why == MISSING:
        way_out = f"the first was expected at {first.path}; {_way_to(first.path)}"
    raise TailcloudError(
        f"{spec}: {len(broken):,} of {len(names):,} images ({number(share, 0)} %, more than "
        f"{number(MAX_UNREADABLE, 0)} %) cannot be read: {_some(names, broken)}; {way_out}"
    )


def _way_to(missing: Path) -> str:
    """What may be wrong with the path of a missing file."""
    if not missing.suffix:
        return "paths of a list have the suffix of the file, such as .jpg"
    if "\\" in missing.name:  # a separator on Windows only
        return "write paths as this system does, with / between folders"
    return "--root sets the folder that paths of a list start from"


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
