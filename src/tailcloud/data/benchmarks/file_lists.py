"""ImageNet-LT, Places-LT and iNaturalist 2018: the published lists, and images that others hand out.

The long-tailed parts of the first two are of Liu et al., "Large-Scale Long-Tailed Recognition in an Open World", CVPR
2019: lists of files of ImageNet and Places365 with their labels. Classes, counts and fingerprint come from the lists
alone; no image is opened for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailcloud.data.benchmarks.editions import EDITIONS, Edition
from tailcloud.data.benchmarks.image_root import PlacedImages, find_images
from tailcloud.data.dataset import Dataset, Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.memory import check_fits
from tailcloud.data.packed_names import Names
from tailcloud.data.parallel_io import read_files, unreadable_remark
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.large_list import LongList, PlainList, once, read_plain
from tailcloud.data.readers.split_assignment import PART_NAMES
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import readable

SIZE = 224  # pixels a side
KEEP = 0.875  # of the shorter side of a test image: resized to 256, and 224 are cut out of the middle
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet; the field uses them for all three
ENDINGS = (".txt", ".txt.xz")


def open_published(name: str, root: Path, reading: ReadOptions) -> Dataset:
    """One of the large benchmarks; its images stay in their files unless ``reading`` asks for memory."""
    dataset = with_images(name, root, listed(name, root, reading))
    return in_memory(dataset) if reading.loader == "resident" else dataset


def listed(name: str, root: Path, reading: ReadOptions) -> Dataset:
    """What the lists say, whether or not the images are there."""
    edition, size = EDITIONS[name], reading.size or SIZE
    found = find_lists(name, root)
    lists = {PART_NAMES.index(part): _checked(name, edition, read_plain(file)) for part, file in found.items()}
    whole = once(lists)
    keeps = {"train": 1.0, "val": KEEP, "test": KEEP}
    parts = {part: _part(whole, part, PlacedImages(root, whole.names, size, keep=keeps[part])) for part in found}
    return Dataset(
        spec=name,
        train=parts["train"],
        test=parts["test"],
        class_names=_class_names(edition, whole),
        mean=MEAN,
        std=STD,
        val=parts.get("val"),
        remarks=(*whole.remarks, *_remarks(edition, lists)),
        fit="crop",
        keep=KEEP,
    )


def find_lists(name: str, root: Path) -> dict[str, Path]:
    """The lists of the parts; one for validation may be missing."""
    edition = EDITIONS[name]
    folders = [root, *(root / folder for folder in edition.folders)]
    found: dict[str, Path] = {}
    for part, stem in edition.lists.items():
        places = [folder / f"{stem}{ending}" for folder in folders for ending in ENDINGS]
        there = next((place for place in places if place.is_file()), None)
        if there is None and part != "val":
            raise TailcloudError(
                f"{name} needs the list {stem}.txt, which is neither in {root}/ nor, below it, in "
                f"{edition.looked_for}; it comes with {edition.lists_from}; put it there, or pass --root with the "
                "folder that has it"
            )
        found |= {part: there} if there else {}
    return found


def with_images(name: str, root: Path, dataset: Dataset) -> Dataset:
    """The data set with the places of its images; a sentence if they are not there."""
    edition = EDITIONS[name]

    def found(split: Split) -> Split:
        assert isinstance(split.images, PlacedImages)
        images = find_images(split.images, [root, *(root / folder for folder in edition.folders)], edition.patterns)
        if images is None:
            raise TailcloudError(
                f"{name} needs the images of {edition.images_of}, and {readable(split.images.names[0])} is neither in "
                f"{root}/ nor, below it, in {edition.looked_for}; they come from {edition.images_from} and are not "
                "downloaded by tailcloud; pass --root with the folder that they were unpacked in"
            )
        return replace(split, images=images)

    return _changed(dataset, found)


def images_of(name: str, root: Path) -> list[FileImages]:
    """The files of all parts."""
    dataset = with_images(name, root, listed(name, root, ReadOptions()))
    parts = [dataset.train, *([dataset.val] if dataset.val else []), dataset.test]
    return [part.images for part in parts if isinstance(part.images, FileImages)]


def in_memory(dataset: Dataset) -> Dataset:
    """The same with all images read; those that cannot be read are left out."""
    images = len(dataset.train) + len(dataset.test) + (len(dataset.val) if dataset.val else 0)
    check_fits(dataset.spec, images, *dataset.shape[1:])
    remarks = list(dataset.remarks)

    def read(split: Split) -> Split:
        assert isinstance(split.images, FileImages)
        pixels, broken = read_files(split.images)
        remarks.extend(unreadable_remark(dataset.spec, [readable(name) for name in split.images.names], broken))
        kept = np.delete(np.arange(len(split)), list(broken))
        return Split(pixels[kept] if broken else pixels, split.labels[kept])

    return replace(_changed(dataset, read), remarks=tuple(remarks))


def _changed(dataset: Dataset, change: Callable[[Split], Split]) -> Dataset:
    """The data set with every part changed."""
    train, test = change(dataset.train), change(dataset.test)
    return replace(dataset, train=train, test=test, val=change(dataset.val) if dataset.val else None)


def _checked(name: str, edition: Edition, found: PlainList) -> PlainList:
    """A list whose labels and paths are such as its authors wrote, its paths from the first known folder on."""
    wrong = np.flatnonzero((found.labels < 0) | (found.labels >= edition.classes))
    if len(wrong):
        row = int(wrong[0])
        raise UsageError(
            f"line {found.line(row):,} of {found.file} has the label {found.labels[row]}, and the {edition.classes:,} "
            f"classes of {name} are numbered 0 to {edition.classes - 1}"
        )
    names = [edition.below(path) for path in found.names]
    for row, path in enumerate(names):
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(
                f"line {found.line(row):,} of {found.file} names {readable(path)}, which leads out of the data folder; "
                f"the lists of {name} have paths below it"
            )
    return replace(found, names=Names.of(names))


def _part(whole: LongList, part: str, images: PlacedImages) -> Split:
    rows = np.flatnonzero(whole.parts == PART_NAMES.index(part))
    return Split(images[rows], whole.labels[rows])


def _class_names(edition: Edition, whole: LongList) -> list[str]:
    """The folder of each class as the lists have it; its number where they have none, or folders of several classes."""
    labels, rows = np.unique(whole.labels, return_index=True)
    folders = {int(label): edition.class_name(whole.names[int(row)]) for label, row in zip(labels, rows, strict=True)}
    names = [readable(folders.get(label, str(label))) for label in range(edition.classes)]
    return names if len(set(names)) == len(names) else [str(label) for label in range(edition.classes)]


def _remarks(edition: Edition, lists: Mapping[int, PlainList]) -> list[str]:
    remarks = [
        f"{found.file} has {len(found.labels):,} images, and the published list {images:,}."
        for part, images in edition.images.items()
        if (found := lists.get(PART_NAMES.index(part))) and len(found.labels) != images
    ]
    missing = [stem for part, stem in edition.lists.items() if PART_NAMES.index(part) not in lists]
    return remarks + [f"{stem}.txt is not there: there is no validation part." for stem in missing]
