"""Images that are set aside for testing or validation: per class, whole groups together, always the same ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.formatting import counted
from tailcloud.profile import class_order

Vector = NDArray[np.int64]


def positions_by_class(labels: Vector, classes: int) -> list[Vector]:
    """For each class the positions of its images, in ascending order."""
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    return np.split(class_order(labels, classes), ends[:-1])


def limited_positions(labels: Vector, classes: int, most: int) -> Vector:
    """The positions, in ascending order, of at most ``most`` images of each class, drawn by RandomState(0).

    A larger limit keeps these too.
    """
    random = np.random.RandomState(0)
    return np.sort(np.concatenate([random.permutation(rows)[:most] for rows in positions_by_class(labels, classes)]))


def limit_remark(counts: Vector, most: int) -> list[str]:
    """That ``limited_positions`` leaves images out, if it does; ``counts`` has the images of each class."""
    large = counts[counts > most]
    if not len(large):
        return []
    classes, images = counted(len(large), "class", "classes"), int((large - most).sum())
    return [
        f"{classes} with more than {most:,} training images: {images:,} of them are left out (data.max_count). "
        "Shot groups are of the images that stay."
    ]


def set_aside(
    labels: Vector, classes: int, share: float, smallest: int, groups: Vector | None = None
) -> NDArray[np.bool_]:
    """A mask of the images that are set aside, drawn by RandomState(0).

    A class of n ≥ ``smallest`` images gives max(1, round(share · n)) of them and keeps one at least; a smaller class
    gives none. With ``groups`` (a number for each image) only whole groups are set aside, as near to those counts as
    they allow, and none that holds the last image of a class or one of a class that gives none.
    """
    random, aside = np.random.RandomState(0), np.zeros(len(labels), dtype=bool)
    members = positions_by_class(labels, classes)
    wanted = [_wanted(len(positions), share, smallest) for positions in members]
    if groups is not None:
        return np.isin(groups, _whole_groups(labels, groups, wanted, random))
    for positions, count in zip(members, wanted, strict=True):
        random.shuffle(positions)
        aside[positions[:count]] = True
    return aside


def _wanted(images: int, share: float, smallest: int) -> int:
    return min(images - 1, max(1, round(share * images))) if images >= smallest else 0


def _whole_groups(labels: Vector, groups: Vector, wanted: Sequence[int], random: np.random.RandomState) -> list[int]:
    """The groups to set aside: those of the classes with the fewest groups are chosen first."""
    draw = _Draw(labels, groups, wanted)
    classes = [c for c in range(len(wanted)) if wanted[c]]
    for c in sorted(classes, key=lambda c: len(draw.holders[c])):
        candidates = draw.holders[c]
        random.shuffle(candidates)
        for group in candidates:
            if draw.missing[c] > 0 and draw.may_go(group) and draw.brings_nearer(group):
                draw.take(group)
        free = [group for group in candidates if draw.may_go(group)]
        if draw.missing[c] == wanted[c] and free:  # every group is large: better one too many than no image at all
            draw.take(min(free, key=lambda group: draw.sizes[group][c]))
    return sorted(draw.taken)


class _Draw:
    """Groups that were taken so far, and what they leave to be taken."""

    def __init__(self, labels: Vector, groups: Vector, wanted: Sequence[int]) -> None:
        pairs, counts = np.unique(np.stack([groups, labels]), axis=1, return_counts=True)
        self.sizes: dict[int, dict[int, int]] = {}
        self.holders: list[list[int]] = [[] for _ in wanted]
        for group, c, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            self.sizes.setdefault(group, {})[c] = count
            self.holders[c].append(group)
        self.wanted, self.missing = wanted, list(wanted)
        self.left = np.bincount(labels, minlength=len(wanted)).tolist()
        self.taken: set[int] = set()

    def may_go(self, group: int) -> bool:
        return group not in self.taken and all(
            self.wanted[c] and self.left[c] > count for c, count in self.sizes[group].items()
        )

    def brings_nearer(self, group: int) -> bool:
        sizes = self.sizes[group].items()
        return sum(abs(self.missing[c] - count) for c, count in sizes) < sum(abs(self.missing[c]) for c, _ in sizes)

    def take(self, group: int) -> None:
        self.taken.add(group)
        for c, count in self.sizes[group].items():
            self.missing[c] -= count
            self.left[c] -= count
