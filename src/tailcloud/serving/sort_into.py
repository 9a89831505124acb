"""Sort images into a folder per class, by copies or links. The images themselves are never moved or changed."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Self
from uuid import uuid4

from tailcloud.csv_cells import no_formula, path_cell, row_writer
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import TEMPORARY, LineFile, check_output
from tailcloud.formatting import composed
from tailcloud.serving.predict import FilePrediction

UNSURE_FOLDER = "unsure"
LIST = "predictions.csv"
LONGEST_NAME = 240  # bytes; file systems allow 255
NOT_IN_NAMES = set('<>:"/\\|?*')  # on Windows and on memory cards
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
IMAGE_GONE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO, errno.ESTALE}


def check_new_folder(out: Path) -> None:
    """Refuse a folder that holds anything: its files would mix with those that are sorted into it."""
    check_output("--sort-into", out, folder=True)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"--sort-into {out} is not empty; name a new folder, or remove what is in it")


class SortedFolder:
    """A folder with a folder of images per class, one of unsure images, and a list of all of them as CSV.

    ``out`` must be new or empty. Images whose probability is below ``threshold`` go into ``unsure``. An image is copied
    with its times; with ``link`` it becomes a symbolic link to its absolute path. A copy gets its name when it is
    complete. Use the folder as a context manager.
    """

    def __init__(self, out: Path, class_names: Sequence[str], *, threshold: float = 0.0, link: bool = False) -> None:
        self.out, self.threshold, self.link = out, threshold, link
        self.folders = folder_names(class_names)
        self.done = 0
        check_new_folder(out)

    def __enter__(self) -> Self:
        with self._disk_errors():
            self.out.mkdir(parents=True, exist_ok=True)
            self._file = LineFile(self.out / LIST, "xb")
            self._write_row = row_writer(self._file)
            self._write_row(["source", "destination", "class", "probability", "error"])
        return self

    def __exit__(self, *_: object) -> None:
        with self._disk_errors():
            self._file.file.close()

    def sort(self, predictions: Iterable[FilePrediction]) -> Iterator[FilePrediction]:
        """Sort the image of each prediction, then pass the prediction on; it has an error if the image is gone."""
        for prediction in predictions:
            yield self.add(prediction)

    def add(self, prediction: FilePrediction) -> FilePrediction:
        """Copy or link one image and list it. The prediction comes back, with an error if the image is gone."""
        source = _absolute(prediction.path)
        placed: Path | None = None
        with self._disk_errors():
            if prediction.top:
                try:
                    placed = self._place(source, self._folder(prediction))
                except OSError as error:
                    if self.link or error.errno not in IMAGE_GONE or error.filename != str(source):
                        raise
                    prediction = replace(prediction, top=(), error=str(error.strerror))
            self._list(source, placed, prediction)
        return prediction

    def _folder(self, prediction: FilePrediction) -> Path:
        name = self.folders[prediction.top[0][0]] if prediction.is_sure(self.threshold) else UNSURE_FOLDER
        folder = self.out / name
        folder.mkdir(exist_ok=True)
        return folder

    def _place(self, source: Path, folder: Path) -> Path:
        """Copy or link a file into a folder under a name that is free there."""
        temporary = folder / f"{TEMPORARY}{uuid4().hex}"
        try:
            if self.link:
                temporary.symlink_to(source)
            else:
                shutil.copy2(source, temporary)
            target = next(path for name in unique_names(source) if not os.path.lexists(path := folder / name))
            temporary.rename(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self.done += 1
        return target

    def _list(self, source: Path, placed: Path | None, prediction: FilePrediction) -> None:
        name, probability = prediction.top[0] if prediction.top else ("", None)
        destination = path_cell(placed.relative_to(self.out)) if placed else ""
        share = "" if probability is None else f"{probability:.6f}"
        self._write_row([str(source), destination, no_formula(name), share, no_formula(prediction.error or "")])

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """If the folder cannot be written, say so, with what is in it and the way out."""
        try:
            yield
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                what, way = "is on a full disk", "free some space, or use --link, which needs hardly any"
            else:
                what = f"cannot be written ({error.strerror})"
                way = f"name another folder{', or use --copy' if self.link else ''}"
            kept = f"it holds {self.done:,} whole images, listed in {LIST}" if self.done else "it holds no image"
            raise TailcloudError(f"{self.out} {what}; {kept}. Remove it, then {way}") from None


def _absolute(path: Path) -> Path:
    """The path from the root, through no linked folder, so that ".." means what it says."""
    try:
        return path.parent.resolve() / path.name
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
        return path.absolute()


def folder_names(class_names: Iterable[str]) -> dict[str, str]:
    """A folder name for each class: the class itself where every file system takes it, and no two alike.

    Signs that some file systems refuse become "_"; a dot or space is dropped at an end where it would be lost, or would
    hide the folder. Names that differ only in case are alike, as they are on macOS and Windows. ``unsure`` and
    ``predictions.csv`` are taken.
    """
    taken = {UNSURE_FOLDER, LIST}
    folders: dict[str, str] = {}
    for name in sorted(class_names, key=lambda name: _portable(name) != name):  # plain names keep theirs
        wanted = _portable(name)
        numbered = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
        folders[name] = next(one for one in numbered if _key(one) not in taken)
        taken.add(_key(folders[name]))
    return folders


def _key(name: str) -> str:
    return composed(name).casefold()


def _portable(name: str) -> str:
    kept = "".join("_" if c in NOT_IN_NAMES or not c.isprintable() else c for c in name)
    bare = kept.lstrip(" ").rstrip(". ")
    if not bare or bare.startswith("."):
        bare = f"_{bare.lstrip('.')}"
    if bare.split(".")[0].lower() in DEVICES:
        bare = f"{bare}_"
    return _cut(bare, LONGEST_NAME)


def _cut(text: str, size: int) -> str:
    """Text of at most ``size`` bytes in a file name."""
    while len(os.fsencode(text)) > size:
        text = text[:-1]
    return text


def unique_names(source: Path) -> Iterator[str]:
    """Names for a file, best first: its own, then with the folders that it is from, then with a number."""
    yield source.name
    parts = source.parent.parts[1:]
    for depth in range(1, len(parts) + 1):
        name = "__".join([*parts[-depth:], source.name])
        if len(os.fsencode(name)) > LONGEST_NAME:
            break
        yield name
    for number in count(2):
        yield f"{_cut(source.stem, LONGEST_NAME - len(os.fsencode(source.suffix)))}_{number}{source.suffix}"
