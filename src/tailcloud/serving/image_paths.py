"""Image files from command-line arguments: files, folders, glob patterns, or a list on standard input."""

import os
from collections.abc import Iterator, Sequence
from glob import has_magic, iglob
from itertools import chain, filterfalse
from pathlib import Path
from typing import TextIO

from tailcloud.data.image_io import SUFFIXES
from tailcloud.errors import UsageError

STDIN = "-"
LONGEST_LINE = 1 << 16  # characters; paths are shorter


def check_paths(paths: Sequence[str]) -> None:
    """Refuse arguments that match no image, before anything is computed."""
    if not paths:
        raise UsageError('nothing to predict: pass image files, folders or patterns, or "-" for a list on stdin')
    if paths.count(STDIN) > 1:
        raise UsageError('"-" is given more than once, and standard input can be read only once')
    for path in paths:
        if path != STDIN and next(_expand(path), None) is None:
            raise UsageError(_missing(path))


def _missing(path: str) -> str:
    if Path(path).is_dir():
        return f"{path} holds no image: no file ends in .jpg, .png or another suffix of images"
    return f'nothing matches "{path}"' if has_magic(path) else f"{path} does not exist"


def find_images(paths: Sequence[str], listed: TextIO, *, outside: Path | None = None) -> Iterator[Path]:
    """The files in the order of the arguments; those of a folder sorted by name, with all subfolders.

    In a folder, files with a suffix of images are taken, except hidden ones; links to folders are not followed. The
    argument "-" reads one path per line from ``listed``, without any check. Files in the folder ``outside`` are left
    out, so that a program may write copies there meanwhile.
    """
    found = chain.from_iterable(_lines(listed) if path == STDIN else _expand(path) for path in paths)
    return found if outside is None else filterfalse(InFolder(outside), found)


class InFolder:
    """Whether a file is in a folder or below it, through whatever links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.parent: Path | None = None
        self.inside = False

    def __call__(self, path: Path) -> bool:
        """Whether the file is in the folder; the answer for the last parent is kept, as files come by folder."""
        if path.parent != self.parent:
            try:
                self.inside = path.parent.resolve().is_relative_to(self.folder)
            except (OSError, ValueError, RuntimeError):  # a name that no file can have
                self.inside = False
            self.parent = path.parent
        return self.inside


def _expand(path: str) -> Iterator[Path]:
    matches = [path] if Path(path).exists() or not has_magic(path) else sorted(iglob(path, recursive=True))  # noqa: PTH207
    for match in map(Path, matches):
        if match.is_dir():
            yield from _images_below(match)
        elif match.exists():
            yield match


def _images_below(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield Path(here, name)


def _lines(listed: TextIO) -> Iterator[Path]:
    while line := listed.readline(LONGEST_LINE):
        if path := line.rstrip("\r\n"):
            yield Path(path)
