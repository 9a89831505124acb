"""From what a source says of its images to classes and parts: the same rules for folders, lists and arrays."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.read_options import ReadOptions
from tailcloud.data.splits import Vector, set_aside
from tailcloud.errors import UsageError
from tailcloud.formatting import number
from tailcloud.profile import classes_text

SMALLEST_TO_TEST = 2  # a class of one image gives none to the test part
OTHER = "other"
DIGITS = 100  # a longer name is no number that anybody counts with
PART_NAMES = ("train", "val", "test")
TRAIN, VAL, TEST, NO_PART = range(4)  # as numbers: a letter of text takes as much memory as four of them


Parts = NDArray[np.uint8]


@dataclass
class Arrangement:
    """Images by number: the class of each, and its part as a place in ``PART_NAMES`` (``NO_PART`` for none)."""

    spec: str
    class_names: list[str]
    labels: Vector
    parts: Parts
    groups: Vector | None = None
    remarks: list[str] = field(default_factory=list)

    def of(self, part: str) -> Vector:
        """The images of a part, in order."""
        return np.flatnonzero(self.parts == PART_NAMES.index(part))

    def counts(self, part: str) -> Vector:
        """Images per class in a part."""
        return np.bincount(self.labels[self.parts == PART_NAMES.index(part)], minlength=len(self.class_names))


def part_numbers(parts: Iterable[str]) -> Parts:
    """Names of parts ("" for none) as numbers."""
    numbers = {name: number for number, name in enumerate([*PART_NAMES, ""])}
    return np.fromiter((numbers[part] for part in parts), np.uint8)


def arrange(
    spec: str, labels: Sequence[str], parts: Sequence[str], groups: Sequence[str] | None, reading: ReadOptions
) -> Arrangement:
    """Number the classes, make a test part where there is none, and see to tiny classes.

    Classes are sorted by name, and by number where all names are whole numbers.
    """
    class_names = in_order(set(labels))
    place = {name: position for position, name in enumerate(class_names)}
    arranged = Arrangement(spec, class_names, np.array([place[label] for label in labels]), part_numbers(parts))
    if groups is not None:
        arranged.groups = np.unique(np.array(groups, object), return_inverse=True)[1]
    return settled(arranged, reading)


def settled(arranged: Arrangement, reading: ReadOptions) -> Arrangement:
    """The same, changed in place: with a test part, and without tiny classes where they are not wanted."""
    _find_test(arranged, reading)
    _check_training(arranged)
    _check_groups(arranged)
    if reading.min_count:
        _see_to_small(arranged, reading)
    untested = np.flatnonzero(arranged.counts("test") == 0).tolist()
    if untested:
        text = classes_text(untested, arranged.class_names)
        arranged.remarks.append(f"{text}: no image is left for testing, so the accuracy there will be unknown.")
    return arranged


def in_order(names: set[str]) -> list[str]:
    """Class names sorted; by number if all of them are whole numbers."""
    if all(len(name) <= DIGITS and name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _find_test(arranged: Arrangement, reading: ReadOptions) -> None:
    """Which images are for testing: those that are said to be, or those for validation, or a share of each class."""
    arranged.parts[arranged.parts == NO_PART] = TRAIN
    present = set(np.unique(arranged.parts).tolist())
    if TRAIN not in present:
        others = sorted(PART_NAMES[part] for part in present)
        raise UsageError(f"{arranged.spec} has no training image, only images for {' and '.join(others)}")
    if TEST in present:
        return
    if VAL in present:
        arranged.parts[arranged.parts == VAL] = TEST
        arranged.remarks.append("There is no test part: the validation part is what the model is judged on.")
        return
    aside = set_aside(arranged.labels, len(arranged.class_names), reading.test, SMALLEST_TO_TEST, arranged.groups)
    if not aside.any():
        raise UsageError(
            f"{arranged.spec} has no class of which images could be set aside for testing; give more images, "
            "or smaller groups"
        )
    arranged.parts[aside] = TEST
    kind = "" if arranged.groups is None else ", whole groups together"
    arranged.remarks.append(
        f"There is no test part: {number(100 * reading.test, 0)} % of each class ({aside.sum():,} images{kind}) are "
        "set aside for it."
    )


def _check_training(arranged: Arrangement) -> None:
    untrained = np.flatnonzero(arranged.counts("train") == 0).tolist()
    if untrained:
        where = " and ".join(part for part in ("val", "test") if arranged.counts(part)[untrained].any())
        raise UsageError(
            f"{arranged.spec}: {classes_text(untrained, arranged.class_names)} in {where}, but without a training "
            "image; add some, or take those images out"
        )


def _check_groups(arranged: Arrangement) -> None:
    if arranged.groups is None:
        return
    pairs = set(zip(arranged.groups.tolist(), arranged.parts.tolist(), strict=True))
    straddling = sum(parts > 1 for parts in Counter(group for group, _ in pairs).values())
    if straddling:
        arranged.remarks.append(
            f"{straddling:,} groups have images in more than one part, as the data name the parts: near-twins can make "
            "the accuracy look better than it is."
        )


def _see_to_small(arranged: Arrangement, reading: ReadOptions) -> None:
    """Drop the classes with fewer training images than ``min_count``, or make one class of them."""
    counts, names = arranged.counts("train"), arranged.class_names
    small = counts < reading.min_count
    if reading.small == "merge":
        small &= np.array([name != OTHER for name in names])
    if not small.any():
        return
    if small.all():
        raise UsageError(
            f"data.min_count = {reading.min_count} leaves no class of {arranged.spec}: the largest has "
            f"{counts.max():,} training images"
        )
    kept = [name for name, tiny in zip(names, small.tolist(), strict=True) if not tiny]
    text = classes_text(np.flatnonzero(small).tolist(), names)
    fewer = f"fewer than {reading.min_count} training images"
    if reading.small == "drop":
        arranged.parts[small[arranged.labels]] = NO_PART
        arranged.remarks.append(f"{text}: {fewer}, and left out (data.min_count).")
    else:
        kept += [] if OTHER in kept else [OTHER]
        arranged.remarks.append(f'{text}: {fewer}, and merged into "{OTHER}" (data.min_count).')
    place = {name: position for position, name in enumerate(kept)}
    merged = place.get(OTHER, 0)  # of dropped images, whose labels nobody reads, any will do
    arranged.class_names = kept
    arranged.labels = np.array([place.get(name, merged) for name in names])[arranged.labels]
