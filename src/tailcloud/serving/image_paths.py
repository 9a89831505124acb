"""Image files from command-line arguments: files, folders, glob patterns, or a list on standard input."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import has_magic, iglob
from itertools import chain, filterfalse
from pathlib import Path
from typing import TextIO

from tailcloud.data.image_io import SUFFIXES
from tailcloud.data.readers.image_folder import is_hidden, suffix_of
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


def count_other_files(paths: Sequence[str]) -> Counter[str]:
    """How many files of the folders among the arguments are no images, by suffix; hidden ones are not counted."""
    folders = [match for path in paths if path != STDIN for match in _matches(path) if match.is_dir()]
    return Counter(
        suffix_of(path)
        for folder in folders
        for path in _files_below(folder)
        if path.suffix.lower() not in SUFFIXES and not any(map(is_hidden, path.relative_to(folder).parts))
    )


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
    for match in _matches(path):
        if match.is_dir():
            yield from (file for file in _files_below(match) if file.suffix.lower() in SUFFIXES)
        elif match.exists():
            yield match


def _matches(path: str) -> Iterator[Path]:
    """What an argument means: itself, or what matches the pattern."""
    matches = [path] if Path(path).exists() or not has_magic(path) else sorted(iglob(path, recursive=True))  # noqa: PTH207
    return map(Path, matches)


def _files_below(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))


def _lines(listed: TextIO) -> Iterator[Path]:
    while line := listed.readline(LONGEST_LINE):
        if path := line.rstrip("\r\n"):
            yield Path(path)
