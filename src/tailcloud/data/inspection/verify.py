"""Whether every file of a data set is there and decodes whole: in threads, and in little memory for any number."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from tailcloud.data import OWN, parse_spec
from tailcloud.data.benchmarks.file_lists import images_of
from tailcloud.data.image_io import Unreadable, read_picture
from tailcloud.data.packed_names import Names
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.build_streamed import CHANNELS, Filed
from tailcloud.data.readers.own_data import list_images, long_list, start_of

BLOCK = 32  # files that a thread checks at a time
THREADS = min(16, 2 * (os.cpu_count() or 1))  # some wait for the disk while others decode

Progress = Callable[[int, int], None]  # files checked, files in all


class Files(Protocol):
    """Files in order."""

    @property
    def names(self) -> Names:
        """What they are called."""

    def path(self, row: int) -> Path:
        """Where one of them is."""


def files_of(spec: str, root: Path) -> list[Files]:
    """The image files of a folder, a list or a large benchmark, before any of them is opened.

    Raises:
        TailcloudError: there are no such files, or the list cannot be read.
    """
    name = parse_spec(spec)[0]
    if name != OWN:
        return [*images_of(name, root)]
    path = Path(spec).expanduser()
    if long := long_list(path, ReadOptions(loader="stream")):
        return [Filed(spec, start_of(path, root, long.names[0]), long.names)]
    listing = list_images(path, root)
    return [Filed(spec, listing.root, listing.packed())]


def broken_files(parts: Sequence[Files], progress: Progress) -> Iterator[Unreadable]:
    """Every file that is missing or does not decode to its last line, in order."""
    total, done = sum(len(part.names) for part in parts), 0
    for found in _results(parts):
        yield from filter(None, found)
        done += len(found)
        progress(done, total)


def _results(parts: Sequence[Files]) -> Iterator[list[Unreadable | None]]:
    """What threads found in block after block; only a few blocks are ahead of the one that is asked for."""
    blocks = ((part, start) for part in parts for start in range(0, len(part.names), BLOCK))
    pool, ahead = ThreadPoolExecutor(THREADS), deque[Future[list[Unreadable | None]]]()
    try:
        for part, start in blocks:
            ahead.append(pool.submit(_checked, part, range(start, min(start + BLOCK, len(part.names)))))
            if len(ahead) >= 4 * THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _checked(part: Files, rows: range) -> list[Unreadable | None]:
    return [_fault(part.path(row)) for row in rows]


def _fault(path: Path) -> Unreadable | None:
    try:
        read_picture(path, CHANNELS)
    except Unreadable as error:
        return error
    return None
