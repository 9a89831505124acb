"""Files that are whole or absent: nothing here leaves half a file behind."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from tailcloud.errors import TailcloudError, UsageError

FORMAT = 1
TEMPORARY = ".tmp-"  # how the names of files begin that are not whole yet


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a neighbour, flush it to disk, and rename it into place; on any failure the neighbour is removed.

    In text, what is no character (of the name of a file, say) is written as ``\\udcff``, which JSON reads back.
    """
    with _appearing(path, mode="xb") as file:
        file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)


@contextmanager
def new_text_file(path: Path) -> Iterator[IO[str]]:
    """A file that is written bit by bit and appears under its name when it is whole; an existing one is refused."""
    if path.exists():
        raise UsageError(f"{path} exists already and is not overwritten; choose another name with --out")
    with _appearing(path, mode="x", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


@contextmanager
def _appearing(path: Path, **opening: Any) -> Iterator[IO[Any]]:
    """A file under another name, which takes its own once it is whole and on the disk; else nothing is left of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{uuid4().hex}")
    try:
        with named_in_errors(path), temporary.open(**opening) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with named_in_errors(path):
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """A full disk does not say which file it had no room for; this does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def check_place(option: str, path: Path, *, folder: bool) -> None:
    """Refuse a file or folder that could not be written once the work is done: hours later, perhaps."""
    if path.is_dir() and not folder:
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    inside = path if folder else path.parent
    there = next(place for place in (inside, *inside.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {path} cannot be written: {there} is a file, not a folder")
    if not os.access(there, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written: {there} is not yours to write to; choose another place")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A JSON file of this project: its format number first."""
    write_atomically(path, json_text({"format": FORMAT, **content}) + "\n")


def json_text(content: object, depth: int = 0) -> str:
    """JSON for people too: a field a line, but a list of plain values in one line, so that a matrix looks like one."""
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
    """A JSON file of this project, or a sentence that says why it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TailcloudError(f"{path} is missing") from None
    except (ValueError, RecursionError):  # no text, no JSON, or a number or nesting beyond all bounds
        raise TailcloudError(f"{path} is not a JSON file: it is damaged or was not written by tailcloud") from None
    if not isinstance(content, dict):
        raise TailcloudError(f"{path} does not hold a tailcloud record")
    check_format(path, content.get("format"))
    return content


def check_format(path: Path, found: object) -> None:
    """Refuse a file that another version of the file format wrote."""
    if found != FORMAT:
        raise TailcloudError(
            f"{path} has format {found!r}, and this tailcloud reads format {FORMAT}; use the version that wrote it"
        )
