"""Images in folders: one folder a class, with or without train, val and test above them."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tailcloud.data.image_io import SUFFIXES
from tailcloud.data.readers.file_list import PARTS, Listing
from tailcloud.errors import UsageError
from tailcloud.formatting import counted, readable, some_of

CLUTTER = {"thumbs.db", "desktop.ini", "icon\r"}
CLUTTER_FOLDERS = {"__macosx", "@eadir", "$recycle.bin"}


@dataclass
class _Finds:
    """What a walk through the folders has met."""

    root: Path
    paths: list[Path] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)

    def add_classes(self, folder: Path, part: str) -> None:
        """Every class folder in ``folder``."""
        self.loose += [self.name(path) for path in _files(folder) if _is_image(path)]
        for place in _folders(folder):
            found = list(_below(place))
            images = [path for path in found if _is_image(path)]
            self.others.update(readable(path.suffix.lower()) or "no ending" for path in found if not _is_image(path))
            self.paths += images
            self.labels += [readable(place.name)] * len(images)
            self.parts += [part] * len(images)
            if not images:
                self.empty.append(self.name(place))

    def name(self, path: Path) -> str:
        """A path as people know it."""
        return readable(path.relative_to(self.root).as_posix())

    def remarks(self) -> Iterator[str]:
        """What was there and is not read."""
        if self.empty:
            yield f"No image in {some_of(self.empty, 5)}."
        if self.others:
            kinds = ", ".join(kind for kind, _ in self.others.most_common(3))
            files = counted(self.others.total(), "file")
            yield f"Not read, since their names do not end like those of images: {files} ({kinds})."
        if self.loose:
            images = counted(len(self.loose), "image")
            yield f"Not read, since outside of class folders: {images} ({some_of(self.loose)})."


def read_folder(root: Path) -> Listing:
    """The images under ``root``, sorted by part, class and name.

    ``root/train/CLASS/…`` with ``root/val`` and ``root/test`` beside it where they exist (also training, valid,
    validation, testing), or ``root/CLASS/…``. Folders inside of a class belong to it. Hidden files are not looked at.
    """
    finds, parts = _Finds(root), _part_folders(root)
    for folder, part in parts.items() or {root: ""}.items():
        finds.add_classes(folder, part)
    if not finds.paths:
        raise UsageError(_nothing(root, finds))
    beside = [readable(place.name) for place in _folders(root) if parts and place not in parts]
    lists = [readable(path.name) for path in _files(root) if path.suffix.lower() in {".csv", ".tsv"}]
    pointer = f"Classes are named after folders; to have them from {some_of(lists)}, name that file, not the folder."
    remarks = [
        *finds.remarks(),
        *([pointer] if lists else []),
        *([f"Not read, since beside the training folder: {some_of(beside)}."] if beside else []),
    ]
    files = [path.relative_to(root).as_posix() for path in finds.paths]
    return Listing(files, list(map(readable, files)), finds.labels, finds.parts, None, tuple(remarks), root)


def _part_folders(root: Path) -> dict[Path, str]:
    """Which folders are parts: none, unless there is a training folder that has folders in it."""
    parts = {place: PARTS[place.name.lower()] for place in _folders(root) if place.name.lower() in PARTS}
    trained = any(part == "train" and _folders(place) for place, part in parts.items())
    return parts if trained else {}


def _nothing(root: Path, finds: _Finds) -> str:
    if finds.loose:
        return (
            f"{root} holds {counted(len(finds.loose), 'image')} but no class folders; put the images of each class "
            "into a folder of its name, or give a CSV file with the columns path,label"
        )
    kinds = f" (files there end in {some_of(sorted(finds.others))})" if finds.others else ""
    return f"{root} holds no images in class folders{kinds}; it should look like {root}/CLASS/1.jpg"


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in CLUTTER | CLUTTER_FOLDERS


def _folders(place: Path) -> list[Path]:
    return sorted(
        Path(entry.path) for entry in os.scandir(place) if Path(entry.path).is_dir() and not _hidden(entry.name)
    )


def _files(place: Path) -> list[Path]:
    return sorted(
        Path(entry.path) for entry in os.scandir(place) if Path(entry.path).is_file() and not _hidden(entry.name)
    )


def _below(place: Path) -> Iterator[Path]:
    """Every file below a folder, in order; a link that leads back is not followed twice."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(place, followlinks=True, onerror=_refuse):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not _hidden(name))
        yield from (Path(folder, name) for name in sorted(files) if not _hidden(name))


def _refuse(error: OSError) -> None:
    raise error
