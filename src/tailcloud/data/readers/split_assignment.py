"""Which class and which split each image belongs to: the same rules for folders, lists and arrays."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.read_options import ReadOptions
from tailcloud.data.splits import Vector, limit_remark, limited_positions, set_aside
from tailcloud.errors import UsageError, other_spellings
from tailcloud.formatting import number, some_of
from tailcloud.profile import classes_text

SMALLEST_TO_TEST = 2  # a class of one image gives none to the test split
OTHER = "other"
SPACING = re.compile(r"[\s_-]+")
MAX_DIGITS = 100  # a longer class name is sorted as text
SPLIT_NAMES = ("train", "val", "test")
TRAIN, VAL, TEST, NO_SPLIT = range(4)  # numbers, because text takes more memory for millions of images

SplitNumbers = NDArray[np.uint8]


@dataclass
class SplitAssignment:
    """The class of each image, and its split as a position in ``SPLIT_NAMES`` (``NO_SPLIT``: the image is not used).

    ``has_test`` is False if nothing is set aside for testing: then the training split is also the test split.
    ``class_sizes`` are the training images of each class before some were left out of large classes, if they were.
    """

    spec: str
    class_names: list[str]
    labels: Vector
    splits: SplitNumbers
    groups: Vector | None = None
    remarks: list[str] = field(default_factory=list)
    has_test: bool = True
    class_sizes: tuple[int, ...] | None = None

    def rows(self, split: str) -> Vector:
        """The images of a split, in ascending order."""
        return np.flatnonzero(self.splits == SPLIT_NAMES.index(split))

    def order(self) -> Vector:
        """All images that are used, split by split, so that each split is one slice."""
        return np.concatenate([self.rows(split) for split in SPLIT_NAMES])

    def counts(self, split: str) -> Vector:
        """Images per class in a split."""
        return np.bincount(self.labels[self.splits == SPLIT_NAMES.index(split)], minlength=len(self.class_names))


def split_numbers(splits: Iterable[str]) -> SplitNumbers:
    """Names of splits ("" for none) as numbers."""
    numbers = {name: number for number, name in enumerate([*SPLIT_NAMES, ""])}
    return np.fromiter((numbers[split] for split in splits), np.uint8)


def assign_splits(
    spec: str, labels: Sequence[str], splits: Sequence[str], groups: Sequence[str] | None, options: ReadOptions
) -> SplitAssignment:
    """Number the classes, set a test split aside if there is none, and drop or merge tiny classes.

    Classes are sorted by name, or by number if all names are whole numbers.
    """
    assignment = as_listed(spec, labels, splits)
    if groups is not None:
        assignment.groups = np.unique(np.array(groups, object), return_inverse=True)[1]
    return complete_assignment(assignment, options)


def as_listed(spec: str, labels: Sequence[str], splits: Sequence[str]) -> SplitAssignment:
    """Numbered classes, and the splits that the data name, without any check."""
    class_names = sort_class_names(set(labels))
    number = {name: position for position, name in enumerate(class_names)}
    return SplitAssignment(
        spec, class_names, np.array([number[label] for label in labels], np.int64), split_numbers(splits)
    )


def complete_assignment(assignment: SplitAssignment, options: ReadOptions) -> SplitAssignment:
    """The same object, changed in place: with a test split, and without tiny classes and images that are not wanted."""
    _find_test_split(assignment, options)
    _check_training(assignment)
    _check_groups(assignment)
    if options.min_count:
        _drop_or_merge_tiny_classes(assignment, options)
    if options.max_count:
        _limit_large_classes(assignment, options.max_count)
    assignment.remarks += _similar_names_remark(assignment.class_names)
    untested = np.flatnonzero(assignment.counts("test") == 0).tolist()
    if untested and assignment.has_test:
        text = classes_text(untested, assignment.class_names)
        assignment.remarks.append(f"{text}: no test image, so the accuracy there will be unknown.")
    return assignment


def sort_class_names(names: set[str]) -> list[str]:
    """Class names sorted as text, or by number if all of them are whole numbers."""
    if all(len(name) <= MAX_DIGITS and name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _similar_names_remark(names: Sequence[str]) -> list[str]:
    """A remark on classes whose names differ only in case, spaces, underscores or hyphens."""
    similar: dict[str, list[str]] = {}
    for name in names:
        similar.setdefault(SPACING.sub(" ", name).casefold(), []).append(name)
    listed = [" and ".join(each) for each in similar.values() if len(each) > 1]
    if not listed:
        return []
    return [
        f"Names of classes that differ only in case or spacing: {some_of(listed)}. If they are one class, rename it."
    ]


def _find_test_split(assignment: SplitAssignment, options: ReadOptions) -> None:
    """The test split: as the data name it, or else the validation split, or else a share of each class."""
    assignment.splits[assignment.splits == NO_SPLIT] = TRAIN
    present = set(np.unique(assignment.splits).tolist())
    if TRAIN not in present:
        others = sorted(SPLIT_NAMES[split] for split in present)
        raise UsageError(f"{assignment.spec} has no training image, only images for {' and '.join(others)}")
    if TEST in present:
        return
    if VAL in present:
        assignment.splits[assignment.splits == VAL] = TEST
        assignment.remarks.append("There is no test split: the validation split is used for testing.")
        return
    if options.test == 0:
        assignment.has_test = False
        return
    aside = set_aside(assignment.labels, len(assignment.class_names), options.test, SMALLEST_TO_TEST, assignment.groups)
    if not aside.any():
        raise UsageError(
            f"{assignment.spec} has no class of which images could be set aside for testing; give more images, "
            "or smaller groups"
        )
    assignment.splits[aside] = TEST
    groups = "" if assignment.groups is None else ", whole groups together"
    assignment.remarks.append(
        f"There is no test split: {number(100 * options.test, 0)} % of each class ({aside.sum():,} images{groups}) are "
        "set aside for testing."
    )


def _check_training(assignment: SplitAssignment) -> None:
    untrained = np.flatnonzero(assignment.counts("train") == 0).tolist()
    if untrained:
        where = " and ".join(split for split in ("val", "test") if assignment.counts(split)[untrained].any())
        names, missing = list(assignment.class_names), set(untrained)
        trained = [name for place, name in enumerate(names) if place not in missing]
        meant = other_spellings([names[place] for place in untrained], trained)
        untrained.sort(key=lambda place: names[place] not in meant)
        names = [f"{name} (did you mean {meant[name]}?)" if name in meant else name for name in names]
        rename = "rename what is misspelt, " if meant else ""
        raise UsageError(
            f"{assignment.spec}: {classes_text(untrained, names)} in {where}, but without a training image; {rename}"
            "add some, or remove those images"
        )


def _check_groups(assignment: SplitAssignment) -> None:
    if assignment.groups is None:
        return
    pairs = set(zip(assignment.groups.tolist(), assignment.splits.tolist(), strict=True))
    shared = sum(splits > 1 for splits in Counter(group for group, _ in pairs).values())
    if shared:
        assignment.remarks.append(
            f"{shared:,} groups have images in more than one split, as the data name the splits: similar images in "
            "training and testing can make the accuracy look better than it is."
        )


def _drop_or_merge_tiny_classes(assignment: SplitAssignment, options: ReadOptions) -> None:
    """Drop the classes with fewer training images than ``min_count``, or make one class of them."""
    counts, names = assignment.counts("train"), assignment.class_names
    small = counts < options.min_count
    if options.small == "merge":
        small &= np.array([name != OTHER for name in names])
    if not small.any():
        return
    if small.all():
        raise UsageError(
            f"data.min_count = {options.min_count} leaves no class of {assignment.spec}: the largest has "
            f"{counts.max():,} training images"
        )
    kept = [name for name, tiny in zip(names, small.tolist(), strict=True) if not tiny]
    text = classes_text(np.flatnonzero(small).tolist(), names)
    fewer = f"fewer than {options.min_count} training images"
    if options.small == "drop":
        assignment.splits[small[assignment.labels]] = NO_SPLIT
        assignment.remarks.append(f"{text}: {fewer}, dropped (data.min_count).")
    else:
        kept += [] if OTHER in kept else [OTHER]
        assignment.remarks.append(f'{text}: {fewer}, merged into "{OTHER}" (data.min_count).')
    new_label = {name: position for position, name in enumerate(kept)}
    merged = new_label.get(OTHER, 0)  # labels of dropped images are never read, so any will do
    assignment.class_names = kept
    assignment.labels = np.array([new_label.get(name, merged) for name in names])[assignment.labels]


def _limit_large_classes(assignment: SplitAssignment, most: int) -> None:
    """Leave training images out of the classes that have more than ``most``."""
    rows = assignment.rows("train")
    kept = limited_positions(assignment.labels[rows], len(assignment.class_names), most)
    if len(kept) < len(rows):
        assignment.remarks += limit_remark(assignment.counts("train"), most)
        assignment.class_sizes = tuple(assignment.counts("train").tolist())
        assignment.splits[np.delete(rows, kept)] = NO_SPLIT
