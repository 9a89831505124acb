"""Atomic file writing: a file is complete or absent."""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, Self
from uuid import uuid4

from tailcloud.errors import TailcloudError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    LOCKS = False
else:
    LOCKS = True

FORMAT = 1
TEMPORARY = ".tmp-"  # prefix of files that are not complete yet
TEMPORARY_NAME = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{32}")  # of a file; users have others that begin like it


def expand_home(text: str) -> Path:
    """The path that a user typed, with a leading ``~/`` expanded.

    ``./~backup`` is a folder here, and ``~backup`` too: only a shell expands the homes of other users.
    """
    return Path(text).expanduser() if text == "~" or text.startswith("~/") else Path(text)


def refuse_single_path(name: str, paths: object) -> None:
    """Refuse a path in the place of a list of them, whose letters would be taken as paths; ``name`` is the argument."""
    if isinstance(paths, str | os.PathLike):
        path = os.fspath(paths)
        raise UsageError(f'{name} = "{path}" should be a list of run folders; write ["{path}"]')


def is_temporary(path: Path) -> bool:
    """Whether this is a file that a process was writing here, and not one that belongs to the user."""
    return bool(TEMPORARY_NAME.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a temporary file in the same folder, flush it to disk and rename it; it is removed on any failure.

    Surrogates in text (bytes of file names that are not UTF-8) are written as ``\\udcff``, which JSON reads back.
    """
    with _temporary_file(path, mode="xb") as file:
        file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)


@contextmanager
def new_text_file(path: Path) -> Iterator[IO[str]]:
    """A new file that appears under its name when it is complete; an existing file is refused.

    Raises:
        TailcloudError: a file of that name appeared in the meantime; the text is in a file with a number in its name.
    """
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already and is not overwritten; choose another name with --out")
    text = {"mode": "x", "encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    with _temporary_file(path, _rename_without_replacing, **text) as file:
        yield file


def _rename_without_replacing(temporary: Path, path: Path) -> None:
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    target = next(place for place in chain([path], numbered) if _renamed(temporary, place))
    if target != path:
        raise TailcloudError(f"{path} appeared in the meantime and is not overwritten; the new file is {target}")


def _renamed(temporary: Path, target: Path) -> bool:
    """Rename a file; False if the name is taken. A link, unlike a rename, replaces nothing."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            return False
        temporary.rename(target)
    temporary.unlink(missing_ok=True)
    return True


@contextmanager
def _temporary_file(
    path: Path, rename: Callable[[Path, Path], object] = Path.replace, **options: Any
) -> Iterator[IO[Any]]:
    """A temporary file that gets the name ``path`` once it is on the disk, and is removed on any failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    temporary, file = _create_beside(path, **options)
    try:
        with named_in_errors(path), file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not LOCKS:  # Windows renames no open file; elsewhere the lock is held until the file has its name
                file.close()
            rename(temporary, path)
    except BaseException:
        with suppress(OSError):  # a disk that has turned read-only
            temporary.unlink(missing_ok=True)
        raise


def _create_beside(path: Path, **options: Any) -> tuple[Path, IO[Any]]:
    """A new temporary file in the folder of ``path``; as long as it is open it is locked, so that nobody removes it."""
    while True:
        temporary = path.with_name(f"{TEMPORARY}{uuid4().hex}")
        with named_in_errors(path):
            file = temporary.open(**options)
        if not LOCKS:
            return temporary, file
        with suppress(OSError):  # a file system without locks: nobody can take it for a leftover there
            fcntl.flock(file, fcntl.LOCK_EX)
        if is_at(temporary, file.fileno()):
            return temporary, file
        file.close()  # somebody took it for a leftover before it was locked


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that were killed: those that nobody has locked."""
    if not LOCKS:
        return
    for path in filter(is_temporary, folder.glob(f"{TEMPORARY}*")):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


def is_at(path: Path, file: int) -> bool:
    """Whether an open file is still the file at a path; other processes may remove it at any time."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


class LineFile:
    """A file that grows line by line under its name; a context manager.

    It has no buffer: closing one would write a line again, after the part of it that a full disk took.
    """

    def __init__(self, path: Path, mode: Literal["ab", "xb"]) -> None:
        self.file = path.open(mode, buffering=0)

    def write(self, text: str) -> None:
        """Write text at once."""
        content = text.encode(errors="backslashreplace")
        while content:
            content = content[self.file.write(content) :]

    def __enter__(self) -> Self:
        """Nothing is written yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Everything is written."""
        self.file.close()


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Add the file name to an ``OSError``: that of a full disk has none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which could be waited for without an end; a missing file is left to whoever opens it.

    Raises:
        OSError: not a regular file or a folder.
    """
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file; remove it", str(path))


def check_output(option: str, path: Path, *, folder: bool) -> None:
    """Refuse an output file or folder that cannot be written, before the work begins."""
    if path.is_dir() and not folder:
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    inside = path if folder else path.parent
    existing = next(place for place in (inside, *inside.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise UsageError(f"{option} {path} cannot be written: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK):
        raise UsageError(
            f"{option} {path} cannot be written: you have no permission to write to {existing}; choose another folder"
        )
    try:  # a file without a name, so that the folder stays as it is
        TemporaryFile(dir=existing).close()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise UsageError(
            f"{option} {path} cannot be written: no file can be created in {existing} ({error.strerror}); choose "
            "another folder"
        ) from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file of this project, with its format number first."""
    write_atomically(path, json_text({"format": FORMAT, **content}) + "\n")


def json_text(content: object, depth: int = 0) -> str:
    """Readable JSON: one field per line, and a list of plain values in one line, so that a matrix looks like one."""
    match content:
        case dict() if content:
            opening, closing = "{}"
            inside = [
                f"{json.dumps(str(key), ensure_ascii=False)}: {json_text(value, depth + 1)}"
                for key, value in content.items()
            ]
        case list() | tuple() if any(isinstance(value, dict | list | tuple) for value in content):
            opening, closing = "[]"
            inside = [json_text(value, depth + 1) for value in content]
        case _:
            return json.dumps(content, ensure_ascii=False)
    lines = (",\n" + " " * (depth + 1)).join(inside)
    return f"{opening}\n{' ' * (depth + 1)}{lines}\n{' ' * depth}{closing}"


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of this project; an error that says why if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TailcloudError(f"{path} is missing") from None
    except (ValueError, RecursionError):  # not text, not JSON, or too long numbers or too deep nesting
        raise TailcloudError(f"{path} is not a JSON file: it is damaged or was not written by tailcloud") from None
    if not isinstance(content, dict):
        raise TailcloudError(f"{path} is not a tailcloud record: its JSON is not an object")
    check_format(path, content.get("format"))
    return content


def check_format(path: Path, found: object) -> None:
    """Refuse a file that another version of the file format wrote."""
    if found != FORMAT:
        raise TailcloudError(
            f"{path} has format {found!r}, and this tailcloud reads format {FORMAT}; use the version that wrote it"
        )
