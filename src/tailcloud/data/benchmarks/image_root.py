"""Finds the images of a published list on this machine: the same files are unpacked in different layouts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tailcloud.data.file_images import FileImages

SAMPLE = 8  # files that are looked for in each layout
AS_LISTED = "{path}"


@dataclass(frozen=True)
class PlacedImages(FileImages):
    """Files whose path on disk differs from that in the list; ``pattern`` maps one to the other, as in ``placed``.

    The fingerprint is that of the list, wherever the files are.
    """

    pattern: str = AS_LISTED

    def path(self, row: int) -> Path:
        """The file of an image."""
        return self.root / placed(self.names[row], self.pattern)


def placed(path: str, pattern: str) -> str:
    """A path of a list in another layout.

    >>> placed("val/n01440764/1.JPEG", "{first}/{file}")
    'val/1.JPEG'
    >>> placed("train/cabin-outdoor/1.jpg", "data_256/{letter}/{nested}/{file}")
    'data_256/c/cabin/outdoor/1.jpg'
    >>> placed("data_256/c/cabin/outdoor/1.jpg", "train/{class}/{file}")
    'train/cabin-outdoor/1.jpg'
    """
    if pattern == AS_LISTED:
        return path
    first, *inner, file = path.split("/") if "/" in path else ("", path)
    folders = inner[1:] if len(inner) > 1 and len(inner[0]) == 1 else inner
    name = "-".join(folders)
    words = {"first": first, "rest": "/".join([*inner, file]), "file": file, "class": name}
    return pattern.format_map({**words, "letter": name[:1], "nested": name.replace("-", "/")})


def find_images(images: PlacedImages, folders: Iterable[Path], patterns: Sequence[str]) -> PlacedImages | None:
    """The images in the folder and layout that has most of a sample of them; None if no layout has any."""
    step = max(1, len(images) // SAMPLE)
    layouts = [replace(images, root=folder, pattern=pattern) for folder in folders for pattern in patterns]
    counts = [sum(_exists(layout.path(row)) for row in range(0, len(images), step)[:SAMPLE]) for layout in layouts]
    return layouts[counts.index(max(counts))] if max(counts) else None


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long a name, or a folder that may not be read
        return False
