"""Checks that every file of a data set exists and can be decoded: by threads, and in little memory for any number."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from tailcloud.data import OWN, parse_spec
from tailcloud.data.benchmarks.file_lists import images_of
from tailcloud.data.image_io import Unreadable, read_image
from tailcloud.data.packed_names import Names
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.build_dataset import CHANNELS, UnopenedFiles
from tailcloud.data.readers.open_path import list_files, list_root, read_if_large
from tailcloud.files import expand_home

BLOCK = 32  # files that a thread checks at a time
THREADS = min(16, 2 * (os.cpu_count() or 1))  # some wait for the disk while others decode

Progress = Callable[[int, int], None]  # files checked, files in total


class NamedFiles(Protocol):
    """Files in order."""

    @property
    def names(self) -> Names:
        """Their names."""

    def path(self, row: int) -> Path:
        """Where one of them is."""


def files_of(spec: str, root: str | Path) -> list[NamedFiles]:
    """The image files of a folder, a list or a large benchmark (one entry per split), none of them opened.

    Raises:
        TailcloudError: there are no such files, or the list cannot be read.
    """
    name = parse_spec(spec)[0]
    if name != OWN:
        return [*images_of(name, Path(root))]
    path = expand_home(spec)
    if large := read_if_large(path, ReadOptions(loader="stream")):
        return [UnopenedFiles(spec, list_root(path, root, large.names[0]), large.names)]
    files = list_files(path, root)
    return [UnopenedFiles(spec, files.root, files.packed_names())]


def broken_files(splits: Sequence[NamedFiles], progress: Progress) -> Iterator[Unreadable]:
    """Every file that is missing or cannot be decoded completely, in order."""
    total, done = sum(len(split.names) for split in splits), 0
    for errors in _results(splits):
        yield from filter(None, errors)
        done += len(errors)
        progress(done, total)


def _results(splits: Sequence[NamedFiles]) -> Iterator[list[Unreadable | None]]:
    """The results of the threads, block after block; only a few blocks are checked ahead."""
    blocks = ((split, start) for split in splits for start in range(0, len(split.names), BLOCK))
    pool, ahead = ThreadPoolExecutor(THREADS), deque[Future[list[Unreadable | None]]]()
    try:
        for split, start in blocks:
            ahead.append(pool.submit(_check_block, split, range(start, min(start + BLOCK, len(split.names)))))
            if len(ahead) >= 4 * THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _check_block(files: NamedFiles, rows: range) -> list[Unreadable | None]:
    return [_check_file(files.path(row)) for row in rows]


def _check_file(path: Path) -> Unreadable | None:
    try:
        read_image(path, CHANNELS)
    except Unreadable as error:
        return error
    return None
