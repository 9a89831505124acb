"""ImageNet-LT, Places-LT and iNaturalist 2018, from their published lists; their images come from elsewhere.

The first two are by Liu et al., "Large-Scale Long-Tailed Recognition in an Open World", CVPR 2019: lists of files of
ImageNet and Places365 with labels. Classes, counts and fingerprint come from the lists alone; no image is opened for
them. The images may be in another folder layout than that of the lists (``PlacedImages``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailcloud.data.benchmarks.editions import EDITIONS, Edition
from tailcloud.data.dataset import Dataset, Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.memory import check_images_fit
from tailcloud.data.packed_names import Names
from tailcloud.data.parallel_io import check_unreadable, read_images, unreadable_remark
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.large_list import LargeList, ParsedList, merge_lists, parse_list
from tailcloud.data.readers.split_assignment import SPLIT_NAMES
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import readable

SAMPLE = 8  # files that are looked for in each layout
AS_LISTED = "{path}"
SIZE = 224  # pixels a side
KEEP = 0.875  # of the shorter side of a test image: resized to 256, then a center crop of 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet; papers use them for all three
ENDINGS = (".txt", ".txt.xz")


@dataclass(frozen=True)
class PlacedImages(FileImages):
    """Files whose path on disk differs from that in the list; ``pattern`` maps one to the other, as in ``placed``.

    The fingerprint is that of the list, wherever the files are.
    """

    pattern: str = AS_LISTED

    def path(self, row: int) -> Path:
        """The file of an image."""
        return self.root / placed(self.names[row], self.pattern)


def open_published(name: str, root: Path, options: ReadOptions) -> Dataset:
    """One of the large benchmarks; its images stay in their files unless ``options.loader`` is "resident"."""
    dataset = with_images(name, root, listed(name, root, options))
    return in_memory(dataset) if options.loader == "resident" else dataset


def listed(name: str, root: Path, options: ReadOptions) -> Dataset:
    """The data set by its lists, whether or not the images exist."""
    edition, size = EDITIONS[name], options.size or SIZE
    files = find_lists(name, root)
    lists = {SPLIT_NAMES.index(split): _checked(name, edition, parse_list(file)) for split, file in files.items()}
    whole = merge_lists(lists)
    keeps = {"train": 1.0, "val": KEEP, "test": KEEP}
    splits = {split: _split(whole, split, PlacedImages(root, whole.names, size, keep=keeps[split])) for split in files}
    return Dataset(
        spec=name,
        train=splits["train"],
        test=splits["test"],
        class_names=_class_names(edition, whole),
        mean=MEAN,
        std=STD,
        val=splits.get("val"),
        remarks=(*whole.remarks, *_remarks(edition, lists)),
        fit="crop",
        keep=KEEP,
    )


def find_lists(name: str, root: Path) -> dict[str, Path]:
    """The lists of the splits; the one for validation may be missing."""
    edition = EDITIONS[name]
    folders = [root, *(root / folder for folder in edition.folders)]
    found: dict[str, Path] = {}
    for split, stem in edition.lists.items():
        places = [folder / f"{stem}{ending}" for folder in folders for ending in ENDINGS]
        file = next((place for place in places if place.is_file()), None)
        if file is None and split != "val":
            raise TailcloudError(
                f"{name} needs the list {stem}.txt, which is neither in {root}/ nor, below it, in "
                f"{edition.looked_for}; get it from {edition.lists_from} and put it there, or pass --root with the "
                "folder that has it"
            )
        found |= {split: file} if file else {}
    return found


def with_images(name: str, root: Path, dataset: Dataset) -> Dataset:
    """The data set with its images found on this machine; an error if they are not there."""
    edition = EDITIONS[name]

    def found(split: Split) -> Split:
        assert isinstance(split.images, PlacedImages)
        images = find_images(split.images, [root, *(root / folder for folder in edition.folders)], edition.patterns)
        if images is None:
            raise TailcloudError(
                f"{name} needs the images of {edition.images_of}, and {readable(split.images.names[0])} is neither in "
                f"{root}/ nor, below it, in {edition.looked_for}; get them from {edition.images_from} (tailcloud "
                "does not download them), and pass --root with the folder that they were unpacked in"
            )
        return replace(split, images=images)

    return _map_splits(dataset, found)


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


def images_of(name: str, root: Path) -> list[FileImages]:
    """The files of all splits."""
    dataset = with_images(name, root, listed(name, root, ReadOptions()))
    splits = [dataset.train, *([dataset.val] if dataset.val else []), dataset.test]
    return [split.images for split in splits if isinstance(split.images, FileImages)]


def in_memory(dataset: Dataset) -> Dataset:
    """The same data set with all images in memory; those that cannot be read are left out."""
    images = len(dataset.train) + len(dataset.test) + (len(dataset.val) if dataset.val else 0)
    check_images_fit(dataset.spec, images, *dataset.shape[1:])
    remarks = list(dataset.remarks)

    def read(split: Split) -> Split:
        assert isinstance(split.images, FileImages)
        pixels, broken = read_images(split.images)
        names = [readable(name) for name in split.images.names] if broken else []
        check_unreadable(dataset.spec, names, broken)
        remarks.extend(unreadable_remark(names, broken))
        kept = np.delete(np.arange(len(split)), list(broken))
        return Split(pixels[kept] if broken else pixels, split.labels[kept])

    return replace(_map_splits(dataset, read), remarks=tuple(remarks))


def _map_splits(dataset: Dataset, change: Callable[[Split], Split]) -> Dataset:
    """The data set with ``change`` applied to every split."""
    train, test = change(dataset.train), change(dataset.test)
    return replace(dataset, train=train, test=test, val=change(dataset.val) if dataset.val else None)


def _checked(name: str, edition: Edition, parsed: ParsedList) -> ParsedList:
    """A list with valid labels and paths; its paths begin with the first known folder."""
    wrong = np.flatnonzero((parsed.labels < 0) | (parsed.labels >= edition.classes))
    if len(wrong):
        row = int(wrong[0])
        raise UsageError(
            f"line {parsed.line(row):,} of {parsed.file} has the label {parsed.labels[row]}, and the "
            f"{edition.classes:,} classes of {name} are numbered 0 to {edition.classes - 1}"
        )
    names = [edition.below(path) for path in parsed.names]
    for row, path in enumerate(names):
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(
                f"line {parsed.line(row):,} of {parsed.file} names {readable(path)}, which leads out of the data "
                f"folder; the lists of {name} have paths below it"
            )
    return replace(parsed, names=Names.of(names))


def _split(whole: LargeList, split: str, images: PlacedImages) -> Split:
    rows = np.flatnonzero(whole.splits == SPLIT_NAMES.index(split))
    return Split(images[rows], whole.labels[rows])


def _class_names(edition: Edition, whole: LargeList) -> list[str]:
    """The folder of each class in the lists; class numbers if folders are missing or shared by classes."""
    labels, rows = np.unique(whole.labels, return_index=True)
    folders = {int(label): edition.class_name(whole.names[int(row)]) for label, row in zip(labels, rows, strict=True)}
    names = [readable(folders.get(label, str(label))) for label in range(edition.classes)]
    return names if len(set(names)) == len(names) else [str(label) for label in range(edition.classes)]


def _remarks(edition: Edition, lists: Mapping[int, ParsedList]) -> list[str]:
    remarks = [
        f"{parsed.file} has {len(parsed.labels):,} images, and the published list has {images:,}."
        for split, images in edition.images.items()
        if (parsed := lists.get(SPLIT_NAMES.index(split))) and len(parsed.labels) != images
    ]
    missing = [stem for split, stem in edition.lists.items() if SPLIT_NAMES.index(split) not in lists]
    return remarks + [f"{stem}.txt does not exist: there is no validation split." for stem in missing]
