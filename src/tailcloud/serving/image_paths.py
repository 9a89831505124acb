"""Which files are meant by what somebody typed: files, folders, patterns, or a list on standard input."""

import os
from collections.abc import Iterator, Sequence
from glob import has_magic, iglob
from pathlib import Path
from typing import TextIO

from tailcloud.data.image_io import SUFFIXES
from tailcloud.errors import UsageError

STDIN = "-"
LONGEST_LINE = 1 << 16  # characters; a path is shorter, and what is longer is none


def check_paths(paths: Sequence[str]) -> None:
    """Refuse a name that nothing is behind before anything is computed."""
    if not paths:
        raise UsageError('nothing to predict: name image files, folders or patterns, or "-" for a list on stdin')
    if paths.count(STDIN) > 1:
        raise UsageError('"-" is there more than once, and standard input can be read only once')
    for path in paths:
        if path != STDIN and next(_meant(path), None) is None:
            raise UsageError(_missing(path))


def _missing(path: str) -> str:
    if Path(path).is_dir():
        return f"{path} holds no image: none of its files ends in .jpg, .png or another suffix of images"
    return f'nothing matches "{path}"' if has_magic(path) else f"{path} does not exist"


def find_images(paths: Sequence[str], listed: TextIO) -> Iterator[Path]:
    """The files, one after the other: as they are named, folders with all that is below them in order of names.

    A folder gives its image files, by suffix, without hidden ones; links to folders are not followed. ``listed`` is
    read where a path is "-": one path a line, without any check.
    """
    for path in paths:
        yield from _lines(listed) if path == STDIN else _meant(path)


def _meant(path: str) -> Iterator[Path]:
    found = [path] if Path(path).exists() or not has_magic(path) else sorted(iglob(path, recursive=True))  # noqa: PTH207
    for one in map(Path, found):
        if one.is_dir():
            yield from _inside(one)
        elif one.exists():
            yield one


def _inside(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield Path(here, name)


def _lines(listed: TextIO) -> Iterator[Path]:
    while line := listed.readline(LONGEST_LINE):
        if path := line.rstrip("\r\n"):
            yield Path(path)
