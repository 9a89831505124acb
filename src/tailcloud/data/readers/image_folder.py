"""Images in folders: one folder a class, with or without train, val and test above them."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tailcloud.data.image_io import SUFFIXES
from tailcloud.data.readers.file_list import SPLIT_WORDS, FileList, printable_labels
from tailcloud.errors import UsageError
from tailcloud.formatting import counted, readable, some_of

CLUTTER = {"thumbs.db", "desktop.ini", "icon\r"}
CLUTTER_FOLDERS = {"__macosx", "@eadir", "$recycle.bin"}


@dataclass
class _FolderScan:
    """What was found in the folders."""

    root: Path
    paths: list[Path] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)

    def add_classes(self, folder: Path, split: str) -> None:
        """Scan every class folder in ``folder``."""
        self.loose += [self.name(path) for path in _files(folder) if _is_image(path)]
        for place in _folders(folder):
            files = list(_below(place))
            images = [path for path in files if _is_image(path)]
            self.others.update(suffix_of(path) for path in files if not _is_image(path))
            self.paths += images
            self.labels += [place.name] * len(images)
            self.splits += [split] * len(images)
            if not images:
                self.empty.append(self.name(place))

    def name(self, path: Path) -> str:
        """A path relative to the root, as it can be printed."""
        return readable(path.relative_to(self.root).as_posix())

    def remarks(self) -> Iterator[str]:
        """What is not read."""
        if self.empty:
            yield f"No images in {some_of(self.empty, 5)}."
        yield from other_files_remark(self.others)
        if self.loose:
            images = counted(len(self.loose), "image")
            yield f"Not read, because outside of class folders: {images} ({some_of(self.loose)})."


def suffix_of(path: Path) -> str:
    """The suffix of a file as remarks name it."""
    return readable(path.suffix.lower()) or "no suffix"


def other_files_remark(others: Counter[str]) -> list[str]:
    """A remark on the files that are no images by their suffix; ``others`` counts each suffix."""
    if not others:
        return []
    kinds = ", ".join(kind for kind, _ in others.most_common(3))
    return [f"Not read, because the suffix is not that of an image: {counted(others.total(), 'file')} ({kinds})."]


def read_folder(root: Path, *, needs_training: bool = True) -> FileList:
    """The images under ``root``, sorted by split, class and name.

    ``root/train/CLASS/…``, optionally with ``root/val`` and ``root/test`` (also training, valid, validation, testing),
    or ``root/CLASS/…``. Folders inside a class folder belong to that class. Hidden files are ignored. If
    ``needs_training`` is False, a root with folders of splits only, such as ``root/test/CLASS/…``, has splits too.
    """
    if root.resolve() == Path(root.anchor or root.resolve().anchor):
        raise UsageError(f"{root} is the whole file system; give the folder that has the folders of the classes")
    scan, splits = _FolderScan(root), _split_folders(root, needs_training)
    for folder, split in splits.items() or {root: ""}.items():
        scan.add_classes(folder, split)
    if not scan.paths:
        raise UsageError(_no_images(root, scan))
    beside = [readable(place.name) for place in _folders(root) if splits and place not in splits]
    lists = [readable(path.name) for path in _files(root) if path.suffix.lower() in {".csv", ".tsv"}]
    hint = f"Classes are named after folders; to take them from {some_of(lists)}, pass that file instead of the folder."
    remarks = [
        *scan.remarks(),
        *([hint] if lists else []),
        *_nested_remark(root, scan),
        *([f"Not read, because beside the training folder: {some_of(beside)}."] if beside else []),
    ]
    above = len(root.parts)
    files = ["/".join(path.parts[above:]) for path in scan.paths]  # as relative_to, which takes a second for 30,000
    labels = printable_labels(root, scan.labels)
    return FileList(files, list(map(readable, files)), labels, scan.splits, None, tuple(remarks), root)


def _nested_remark(root: Path, scan: _FolderScan) -> list[str]:
    """A remark if the only class has all its images in several folders, which are probably the classes."""
    if len(set(scan.labels)) > 1 or any(scan.splits):
        return []
    place = root / scan.labels[0]
    below = [path.relative_to(place).parts for path in scan.paths]
    folders = sorted({readable(parts[0]) for parts in below})
    if len(folders) < 2 or any(len(parts) == 1 for parts in below):
        return []
    return [f"If {some_of(folders)} are the classes, give {readable(str(place))} instead of {readable(str(root))}."]


def _split_folders(root: Path, needs_training: bool) -> dict[Path, str]:
    """The folders of splits: none, unless there is a training folder with folders in it.

    If ``needs_training`` is False, it is enough that every folder is named after a split and has folders in it.
    """
    folders = _folders(root)
    splits = {place: SPLIT_WORDS[place.name.lower()] for place in folders if place.name.lower() in SPLIT_WORDS}
    has_training = any(split == "train" and _folders(place) for place, split in splits.items())
    only_splits = not needs_training and len(splits) == len(folders) and all(map(_folders, folders))
    return splits if has_training or only_splits else {}


def _no_images(root: Path, scan: _FolderScan) -> str:
    if scan.loose:
        return (
            f"{root} has {counted(len(scan.loose), 'image')} but no class folders; put the images of each class into a "
            "folder with its name, or give a CSV file with the columns path,label"
        )
    kinds = f" (files there end in {some_of(sorted(scan.others))})" if scan.others else ""
    return f"{root} has no images in class folders{kinds}; it should look like {root}/CLASS/1.jpg"


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or made by a system beside the images."""
    return name.startswith(".") or name.lower() in CLUTTER | CLUTTER_FOLDERS


def _folders(place: Path) -> list[Path]:
    return sorted(
        Path(entry.path) for entry in os.scandir(place) if Path(entry.path).is_dir() and not is_hidden(entry.name)
    )


def _files(place: Path) -> list[Path]:
    return sorted(
        Path(entry.path) for entry in os.scandir(place) if Path(entry.path).is_file() and not is_hidden(entry.name)
    )


def _below(place: Path) -> Iterator[Path]:
    """Every file below a folder, in order; a link back to a folder above is followed once."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(place, followlinks=True, onerror=_refuse):
        try:
            status = Path(folder).stat()
        except FileNotFoundError:  # it was removed meanwhile
            continue
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        yield from (Path(folder, name) for name in sorted(files) if not is_hidden(name))


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a folder that was removed meanwhile
        raise error
