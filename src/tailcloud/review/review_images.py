"""All images of the data of a run: their files and labels, and their splits as the run had them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcloud.data import SOURCES, Dataset, Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.inspection.duplicates import Duplicates, find_duplicates
from tailcloud.data.readers.open_path import list_files, named_root
from tailcloud.data.splits import Vector
from tailcloud.errors import UsageError
from tailcloud.files import expand_home
from tailcloud.formatting import readable
from tailcloud.launch.run_data import open_data, open_whole
from tailcloud.recipe import Recipe, load_recipe, read_toml
from tailcloud.recipe.resolve import spec_of
from tailcloud.runs.folder import NAME_DATA, RunFolder


@dataclass(frozen=True)
class ReviewImages:
    """Images by number, training split first, then validation and test.

    Args:
        paths: their files, absolute.
        names: the same as people know them, below the folder or list of the data.
        labels: the class of each.
        splits: "train", "val" or "test".
        groups: a number for images that stay in one split; None without ``data.group``.
        class_names: the classes, in order.
        counts: training images of each class.
    """

    paths: Sequence[Path]
    names: Sequence[str]
    labels: Vector
    splits: Sequence[str]
    groups: Vector | None
    class_names: Sequence[str]
    counts: Vector

    def __len__(self) -> int:
        return len(self.paths)


def run_recipe(run: Path, data: str | None = None, root: str | None = None) -> Recipe:
    """The recipe of a run, with its data where they are now; ``data`` and ``root`` are None if they did not move.

    Raises:
        TailcloudError: there is no run, or its images are not files, or not there.
    """
    folder = RunFolder(run)
    if not folder.exists:
        return folder.recipe()  # raises the reason
    spec = data or spec_of(read_toml(folder.recipe_file), "digits-lt")
    if spec.partition(":")[0] in SOURCES or Path(spec).suffix.lower() == ".npz":
        raise UsageError(
            f"{run} was trained on {spec}, whose images are not files of their own; a review ends in a list of files, "
            "so it needs a run on a folder or list of images"
        )
    folder.check_data(data, way_out=NAME_DATA)
    if data is None and root is None:
        return folder.recipe()
    return load_recipe(
        str(folder.recipe_file), [{"data": {"spec": spec}}, {} if root is None else {"root": named_root(root)}]
    )


def without_limits(recipe: Recipe) -> Recipe:
    """The recipe with every image of its data: without ``data.max_count``, and with classes that were dropped.

    Classes that were merged stay merged.
    """
    dropped = {"min_count": 0} if recipe.data.small == "drop" else {}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"max_count": 0, **dropped})})


def open_images(recipe: Recipe) -> tuple[ReviewImages, Dataset]:
    """The images of a recipe and those that it left out, and the data set of all of them.

    Raises:
        TailcloudError: they cannot be read.
    """
    complete = without_limits(recipe)
    dataset, files = open_data(complete), _Files(recipe)
    present = splits_of(dataset)
    grouped = [split.groups for split in present.values() if split.groups is not None]
    paths = [path for split in present.values() for path in files.of(split)]
    splits = [name for name, split in present.items() for _ in range(len(split))]
    groups = np.concatenate(grouped) if grouped else None
    if complete != recipe:
        used = {path: name for name, split in splits_of(open_data(recipe)).items() for path in files.of(split)}
        has_val = open_whole(complete).val is not None
        splits = _splits_of_run([used.get(path) for path in paths], splits, groups, has_val=has_val)
    images = ReviewImages(
        paths=paths,
        names=[files.name(path) for path in paths],
        labels=np.concatenate([split.labels for split in present.values()]),
        splits=splits,
        groups=groups,
        class_names=dataset.class_names,
        counts=dataset.profile.counts,
    )
    return images, dataset


def splits_of(dataset: Dataset) -> dict[str, Split]:
    """The splits by name, in the order in which their images are numbered."""
    splits = {"train": dataset.train, "val": dataset.val, "test": dataset.test}
    return {name: split for name, split in splits.items() if split}


def _splits_of_run(
    used: Sequence[str | None], otherwise: Sequence[str], groups: Vector | None, *, has_val: bool
) -> list[str]:
    """The split of each image: that of the run, or where the run would have had it.

    Args:
        used: its split in the run; None if the run left it out.
        otherwise: its split if nothing is left out.
        groups: a number for images that stay in one split.
        has_val: whether the data name a validation split; else one is drawn from the images that are used.
    """
    held_out = set[int]()
    if groups is not None and not has_val:
        held_out = {group for group, split in zip(groups.tolist(), used, strict=True) if split == "val"}
    drawn = otherwise if has_val else ["train" if split == "val" else split for split in otherwise]
    members = [None] * len(used) if groups is None else groups.tolist()
    return [
        split or ("val" if group in held_out else other)
        for split, other, group in zip(used, drawn, members, strict=True)
    ]


class _Files:
    """The files behind the splits of a data set. Images in memory have printable names, which are looked up here."""

    def __init__(self, recipe: Recipe) -> None:
        self.spec = expand_home(recipe.data.spec)
        self.root, self.group = recipe.root, recipe.data.group
        self.known: dict[str, Path] = {}

    def of(self, split: Split) -> list[Path]:
        if isinstance(split.images, FileImages):
            return [split.images.path(row).absolute() for row in range(len(split))]
        assert split.names is not None  # they come from files
        if not self.known:
            files = list_files(self.spec, self.root, self.group)
            self.known = dict(zip(files.names, (path.absolute() for path in files.paths), strict=True))
            if len(self.known) < len(files):
                raise UsageError(
                    f"{self.spec} has files whose names differ only in characters that cannot be printed; rename them"
                )
        return [self.known[name] for name in split.names.tolist()]

    def name(self, path: Path) -> str:
        folder = (self.spec if self.spec.is_dir() else self.spec.parent).absolute()
        return readable(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def duplicates_among(dataset: Dataset) -> Duplicates | None:
    """The pairs of (nearly) the same images, numbered as ``ReviewImages``; None if the images stay in their files."""
    splits = splits_of(dataset).values()
    return None if any(split.streamed for split in splits) else find_duplicates([split.pixels for split in splits])
