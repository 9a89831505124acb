"""The labelled images that a finished run is evaluated on: its own test images, or those of other data.

An image that the run was trained on is never counted as a test image:

- If the data are those of the run, at the same place or moved (same fingerprint), its own test images are used. If they
  have changed since, they are refused: which of them were trained on is not known.
- Other data are compared with the files of the run's data, if these are still there. Training files among them, or
  copies of training files, are left out; if the run's data have changed, all files that are in them.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcloud.data import OWN, SOURCES, Dataset, ReadOptions, Split, open_dataset, parse_spec
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.file_images import FileImages
from tailcloud.data.parallel_io import MAX_UNREADABLE
from tailcloud.data.readers.labelled_images import InputFormat, LabelledImages, list_labelled
from tailcloud.data.readers.open_path import list_files, named_root
from tailcloud.data.splits import Vector
from tailcloud.errors import TailcloudError, UsageError, other_spellings
from tailcloud.files import expand_home
from tailcloud.formatting import composed, counted, readable, some_of
from tailcloud.launch.run_data import open_data
from tailcloud.profile import classes_text
from tailcloud.recipe import Recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.result import Result
from tailcloud.serving.load import TrainedClassifier

Mask = NDArray[np.bool_]

LISTED = 5  # classes that a sentence names


@dataclass(frozen=True)
class EvaluationData:
    """The images are the test split of ``dataset``; ``own`` if they are the run's own test images."""

    dataset: Dataset
    own: bool


def open_evaluation_data(
    folder: RunFolder,
    recipe: Recipe | None,
    model: TrainedClassifier,
    data: str | None = None,
    root: str | None = None,
    *,
    ignore_unknown: bool = False,
) -> EvaluationData:
    """The images on which the model of a run is evaluated.

    Every labelled image of ``data`` is used, or those of the test split if ``data`` name one. Classes are matched by
    name. Images are read as the model was trained. Remarks of the data set say what was left out.

    Args:
        folder: the run.
        recipe: its recipe, with the path ``data`` if that is given; None if only the model is there.
        model: its model.
        data: other data; the run's own by default.
        root: the folder with the data files; that of the recipe by default.
        ignore_unknown: whether to leave out classes that the model does not know.

    Raises:
        UsageError: ``data`` have classes that the model does not know, and ``ignore_unknown`` is False.
    """
    result = folder.result() if recipe and folder.finished else None
    if recipe:
        recipe = recipe.model_copy(update={"root": named_root(root, recipe.root)})
    if recipe and (data is None or (result and _is_own(result, data))):
        return _own_test_images(folder, recipe, result, named=data is not None)
    assert data is not None  # a recipe is needed only for the run's own data
    place = recipe.root if recipe else named_root(root)
    if parse_spec(data)[0] != OWN:
        return EvaluationData(_benchmark(model, data, place, ignore_unknown=ignore_unknown), own=False)
    listed = list_labelled(expand_home(data), place)
    if recipe and result and _is_moved(recipe, result, len(listed.labels)):
        return _own_test_images(folder, recipe, result, named=True)
    chosen = EvaluatedRows(data, listed.labels, model.class_names, [*listed.remarks])
    chosen.keep_split(listed.splits)
    chosen.keep_known_classes(ignore_unknown=ignore_unknown)
    if recipe and result:
        chosen.leave_out_trained(listed, recipe, result)
    return EvaluationData(_read(chosen, listed, model), own=False)


# The run's own data


def _is_own(result: Result, data: str) -> bool:
    """Whether ``data`` are the place that the run was trained on."""
    if data == result.dataset.spec:
        return True
    places = expand_home(data), expand_home(result.dataset.spec)
    return all(place.exists() for place in places) and places[0].samefile(places[1])


def _own_test_images(folder: RunFolder, recipe: Recipe, result: Result | None, *, named: bool) -> EvaluationData:
    """The test images of the run's own data; ``named`` if the user gave these data."""
    dataset, remarks = open_data(recipe), []
    if result is None:
        remarks.append(
            f"{folder.result_file.name} is missing: whether {dataset.spec} is as it was in training cannot be checked."
        )
    elif dataset.fingerprint != result.dataset.fingerprint:
        raise TailcloudError(
            f"{dataset.spec} has changed since {folder.path} was trained on it (fingerprint {dataset.fingerprint}, "
            f"then {result.dataset.fingerprint}), so its test images may be training images now; restore it, or pass "
            "other images with --data"
        )
    elif named:
        remarks.append(f"{dataset.spec} is the data of the run: only the test images are used, as after training.")
    return EvaluationData(replace(dataset, remarks=(*dataset.remarks, *remarks)), own=True)


def _is_moved(recipe: Recipe, result: Result, images: int) -> bool:
    """Whether the data of the recipe, so many ``images``, are those that the run was trained on."""
    total, trained = sum(result.dataset.images.values()), sum(result.dataset.counts)
    most = total / (1 - MAX_UNREADABLE / 100) if not (recipe.data.min_count or recipe.data.max_count) else np.inf
    if not trained <= images <= most:  # so that other data are not read twice
        return False
    try:
        return open_data(recipe).fingerprint == result.dataset.fingerprint
    except TailcloudError:
        return False


# Other data


class EvaluatedRows:
    """The rows of labelled images that are evaluated, and remarks on the others."""

    def __init__(self, spec: str, labels: Sequence[str], class_names: Sequence[str], remarks: list[str]) -> None:
        known = {composed(name): name for name in class_names}  # a model may be older than names in one form
        self.spec, self.class_names, self.remarks = spec, class_names, remarks
        self.names = np.array([known.get(label, label) for label in labels], object)
        self.rows: Vector = np.arange(len(labels))

    @property
    def labels(self) -> Vector:
        """The class of each row, as a number of the model."""
        number = {name: position for position, name in enumerate(self.class_names)}
        return np.array([number[name] for name in self.names[self.rows]], np.int64)

    def keep_split(self, splits: Sequence[str]) -> None:
        """Keep the test split if there is one, else the validation split if there is one, else every image."""
        present = [split for split in ("test", "val") if split in splits]
        if not present:
            return
        self.rows = np.flatnonzero(np.array(splits, object) == present[0])
        if len(self.rows) < len(splits):
            others = len(splits) - len(self.rows)
            self.remarks.append(
                f'{self.spec} names splits: the {counted(len(self.rows), "image")} of "{present[0]}" are used, and '
                f"{counted(others, 'other image')} not."
            )

    def keep_known_classes(self, *, ignore_unknown: bool) -> None:
        """Leave out the classes that the model does not know, or refuse them."""
        counts = Counter(self.names[self.rows].tolist())
        unknown = {name: images for name, images in counts.items() if name not in set(self.class_names)}
        if not unknown:
            return
        images = counted(sum(unknown.values()), "image")
        classes = counted(len(unknown), "class", "classes")
        meant = other_spellings(unknown, self.class_names)
        unknown = dict(sorted(unknown.items(), key=lambda one: one[0] not in meant))
        hints = {name: f"did you mean {close}?" for name, close in meant.items()}
        facts = {name: [f"{number:,}", *([hints[name]] if name in hints else [])] for name, number in unknown.items()}
        listed = some_of([f"{name} ({'; '.join(each)})" for name, each in facts.items()], LISTED)
        if len(unknown) == len(counts):
            has = [f"{name} ({hints[name]})" if name in hints else name for name in unknown]
            raise UsageError(
                f"{self.spec} has no class of the model: it has {some_of(has, LISTED)}, and the model knows "
                f"{some_of(self.class_names, LISTED)}; name its classes as the model does"
            )
        if not ignore_unknown:
            raise UsageError(
                f"{self.spec} has {images} of {classes} that the model does not know: {listed}; rename them, or add "
                "--ignore-unknown to leave them out"
            )
        self.remarks.append(f"Left out: {images} of {classes} that the model does not know: {listed}.")
        self.rows = self.rows[~np.isin(self.names[self.rows], list(unknown))]

    def leave_out_trained(self, listed: LabelledImages, recipe: Recipe, result: Result) -> None:
        """Leave out the files that the run was trained on, and copies of them."""
        spec = result.dataset.spec
        if not listed.paths or spec.partition(":")[0] in SOURCES or spec.endswith(".npz"):  # one of them has no files
            return
        try:
            trained, changed = trained_files([listed.paths[row] for row in self.rows], recipe, result)
        except TailcloudError:
            self.remarks.append(
                f"{spec}, which the run was trained on, cannot be read: training images among these are not recognised."
            )
            return
        if not trained.any():
            return
        images = counted(int(trained.sum()), "image")
        if trained.all():
            seen = f"{spec} has changed since the run was trained, and has" if changed else "the run was trained on"
            raise UsageError(
                f"{seen} all {images} of {self.spec}; pass images that the run has not seen, or leave out --data to "
                "evaluate it on its own test images"
            )
        self.rows = self.rows[~trained]
        which = "that the run was trained on, or copies of them"
        if changed:
            which = f"that are also in {spec}, which has changed since the run was trained on it"
        self.remarks.append(f"Left out: {images} {which}.")


def trained_files(files: Sequence[Path], recipe: Recipe, result: Result) -> tuple[Mask, bool]:
    """For each file, whether the run was trained on it or on a copy; and whether the data of the run have changed.

    If they have changed, its training images are not known any more, so every file of the data counts as one.

    Raises:
        TailcloudError: the files of the run's data cannot be listed.
    """
    data = recipe.data.model_copy(update={"spec": result.dataset.spec})
    listed = list_files(expand_home(data.spec), recipe.root, data.group)
    found = same_files(files, listed.paths)
    if not found.any():
        return found, False
    try:
        dataset = open_data(recipe.model_copy(update={"data": data}))
    except TailcloudError:
        return found, True
    if dataset.fingerprint != result.dataset.fingerprint:
        return found, True
    names = {name for split in (dataset.train, dataset.val) if split for name in _file_names(split)}
    used = [path for name, path in zip(listed.names, listed.paths, strict=True) if name in names]
    found[found] = same_files([file for file, known in zip(files, found, strict=True) if known], used)
    return found, False


def _file_names(split: Split) -> list[str]:
    """The files of a split, as they can be printed."""
    if split.names is not None:
        return list(map(str, split.names))
    return [readable(name) for name in split.images.names] if isinstance(split.images, FileImages) else []


def same_files(files: Sequence[Path], others: Sequence[Path]) -> Mask:
    """For each file, whether it is one of ``others``, or has the same bytes. Only files of equal size are read."""
    places = {os.path.realpath(other) for other in others}
    sizes: dict[int, list[Path]] = {}
    for other in others:
        sizes.setdefault(_size(other), []).append(other)
    sizes.pop(-1, None)
    digests: dict[int, set[bytes]] = {}

    def is_copy(file: Path) -> bool:
        size = _size(file)
        if size not in sizes:
            return False
        if size not in digests:
            digests[size] = {_digest(other) for other in sizes[size]}
        return _digest(file) in digests[size]

    return np.array([os.path.realpath(file) in places or is_copy(file) for file in files], bool)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # a list may name files that are missing
        return -1


def _digest(file: Path) -> bytes:
    try:
        return sha256(file.read_bytes()).digest()
    except OSError:
        return os.fsencode(file)  # equal to no digest


def _read(chosen: EvaluatedRows, listed: LabelledImages, model: TrainedClassifier) -> Dataset:
    height, width = model.size
    if height != width:
        raise UsageError(f"the model takes images of {height} × {width} pixels, and files are read as squares only")
    wanted = InputFormat(height, model.fit, model.keep, len(model.transform.mean))
    split, unreadable = listed.read(chosen.spec, chosen.rows, chosen.labels, wanted)
    return _dataset(chosen.spec, split, model, [*chosen.remarks, *unreadable])


def _benchmark(model: TrainedClassifier, spec: str, root: str, *, ignore_unknown: bool) -> Dataset:
    """The test images of a data set that has a name."""
    dataset = open_dataset(spec, root, ReadOptions(size=model.size[0]) if spec in EDITIONS else ReadOptions())
    names = np.array(dataset.class_names, object)[dataset.test.labels]
    chosen = EvaluatedRows(spec, names.tolist(), model.class_names, [*dataset.remarks])
    chosen.keep_known_classes(ignore_unknown=ignore_unknown)
    return _dataset(spec, replace(dataset.test.take(chosen.rows), labels=chosen.labels), model, chosen.remarks)


def _dataset(spec: str, images: Split, model: TrainedClassifier, remarks: list[str]) -> Dataset:
    """A data set of which only the test split is used, with the classes of the model."""
    absent = np.flatnonzero(np.bincount(images.labels, minlength=len(model.class_names)) == 0).tolist()
    if absent and len(images):
        remarks = [
            *remarks,
            f"{len(absent):,} of {counted(len(model.class_names), 'class', 'classes')} have no image here, and no "
            f"figure of their own: {classes_text(absent, model.class_names)}.",
        ]
    return Dataset(
        spec=spec,
        train=images,
        test=images,
        class_names=model.class_names,
        mean=model.transform.mean,
        std=model.transform.std,
        remarks=tuple(remarks),
        fit=model.fit,
        keep=model.keep,
    )
