"""Files that are whole or absent: nothing here leaves half a file behind."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tailcloud.errors import TailcloudError

FORMAT = 1


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a neighbour, flush it to disk, and rename it into place; on any failure the neighbour is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A JSON file of this project: its format number first."""
    write_atomically(path, json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of this project, or a sentence that says why it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TailcloudError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
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
