"""When, and with which camera, a photograph was taken: what its EXIF block says."""

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from PIL import ExifTags

from tailcloud.data.image_io import Unreadable, read_exif

EPOCH = datetime(1970, 1, 1)
BLOCK, THREADS = 64, 8
SECONDS_BETWEEN_NOTES = 5.0
CAMERA_TAGS = (ExifTags.Base.Make, ExifTags.Base.Model)

log = logging.getLogger(__name__)


class Capture(NamedTuple):
    """The capture of a photograph.

    Args:
        camera: make, model and serial number, as far as the file names them.
        seconds: the time by the clock of the camera, in seconds from 1970; fractions where the file has them.
    """

    camera: str
    seconds: float


def read_capture(path: Path) -> Capture | None:
    """The capture of an image file; None if its EXIF block does not say when it was taken.

    Only the time of the original counts: programs that edit or export set the other times.

    Raises:
        Unreadable: not an image.
    """
    base, photo = read_exif(path)
    seconds = _seconds(_text(photo, ExifTags.Base.DateTimeOriginal), _text(photo, ExifTags.Base.SubsecTimeOriginal))
    if seconds is None:
        return None
    words = [*(_text(base, tag) for tag in CAMERA_TAGS), _text(photo, ExifTags.Base.BodySerialNumber)]
    return Capture(" ".join(filter(None, words)), seconds)


def read_captures(paths: Sequence[Path]) -> list[Capture | None]:
    """The capture of every file; None for one that does not say when it was taken, or is no image."""
    blocks = [paths[start : start + BLOCK] for start in range(0, len(paths), BLOCK)]
    found: list[Capture | None] = []
    last = monotonic()
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        for captures in pool.map(_read_block, blocks):
            found += captures
            if monotonic() - last > SECONDS_BETWEEN_NOTES:
                last = monotonic()
                log.info("%s of %s EXIF blocks read", f"{len(found):,}", f"{len(paths):,}")
    return found


def _read_block(paths: Sequence[Path]) -> list[Capture | None]:
    return [_attempt(path) for path in paths]


def _attempt(path: Path) -> Capture | None:
    try:
        return read_capture(path)
    except Unreadable:
        return None


def _text(tags: Mapping[int, Any], tag: int) -> str:
    value = tags.get(tag, "")
    words = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return words.partition("\0")[0].strip()


def _seconds(moment: str, fraction: str) -> float | None:
    """The time of "2024:05:17 06:41:09", with digits after the point of the second; None if it is not a time."""
    try:
        taken = datetime.strptime(moment[:19].replace("-", ":").replace("T", " "), "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None
    digits = f"0.{fraction}" if fraction.isascii() and fraction.isdigit() else "0"
    return (taken - EPOCH).total_seconds() + float(digits)
