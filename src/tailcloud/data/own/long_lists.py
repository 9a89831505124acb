"""Lists of images that are too long to be read line by line: those of all parts together, each image once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcloud.data.names import Names
from tailcloud.data.own.arranging import NO_PART, PART_NAMES, Arrangement, Parts
from tailcloud.data.own.lists import companions
from tailcloud.data.own.plain_list import PlainList, read_plain
from tailcloud.data.own.repeats import repeats
from tailcloud.data.parting import Vector
from tailcloud.errors import UsageError
from tailcloud.wording import counted, readable


@dataclass(frozen=True)
class LongList:
    """Files in the order of their lists, with their labels and parts."""

    names: Names
    labels: Vector
    parts: Parts
    remarks: tuple[str, ...] = ()

    def arranged(self, spec: str) -> Arrangement:
        """With classes that are numbered through, in the order of their labels."""
        values, labels = _numbered(self.labels)
        return Arrangement(spec, [str(value) for value in values.tolist()], labels, self.parts, remarks=[])


def read_long_list(file: Path) -> LongList:
    """A list of paths and whole numbers, with the lists of other parts beside it as ``read_list`` takes them along.

    Raises:
        NotPlain: a line is no path and whole number.
    """
    others = companions(file)
    lists = {PART_NAMES.index(part): read_plain(place) for part, place in others.items()} or {NO_PART: read_plain(file)}
    remarks = [f"{', '.join(place.name for place in others.values())} are read together as parts."] if others else []
    return once(lists, remarks)


def once(lists: dict[int, PlainList], remarks: Sequence[str] = ()) -> LongList:
    """Some lists, by part, as one in which each image stands once; one with two labels or parts is refused."""
    found = list(lists.values())
    names = found[0].names if len(found) == 1 else Names.joined([one.names for one in found])
    labels = np.concatenate([one.labels for one in found])
    parts = np.repeat(np.array(list(lists), np.uint8), [len(one.labels) for one in found])
    again, first = repeats(names, np.concatenate([one.keys for one in found]))
    wrong = np.flatnonzero((labels[again] != labels[first]) | (parts[again] != parts[first]))
    if len(wrong):
        raise _twice(lists, int(first[wrong[0]]), int(again[wrong[0]]))
    if not len(again):
        return LongList(names, labels, parts, tuple(remarks))
    kept = np.delete(np.arange(len(labels)), again)
    told = f"Left out, since their images were listed before: {counted(len(again), 'line')}."
    return LongList(names.take(kept), labels[kept], parts[kept], (*remarks, told))


def _twice(lists: dict[int, PlainList], first: int, again: int) -> UsageError:
    ends = np.cumsum([len(one.labels) for one in lists.values()])
    said = []
    for row in (first, again):
        place = int(np.searchsorted(ends, row, side="right"))
        one = list(lists.values())[place]
        inner = row - (int(ends[place - 1]) if place else 0)
        said.append(f"the label {one.labels[inner]} in line {one.line(inner):,} of {one.file}")
        name = readable(one.names[inner])
    return UsageError(f"{name} has {said[0]} and {said[1]}; an image can have one label and one part only")


def _numbered(labels: Vector) -> tuple[Vector, Vector]:
    """The labels that there are, in order, and for each image the place of its own among them.

    Labels of ten million images are counted where they are small, which takes a tenth of the time that sorting does.
    """
    low, high = int(labels.min()), int(labels.max())
    if high - low > len(labels):
        values, places = np.unique(labels, return_inverse=True)
        return values, places.astype(np.int64)
    there = np.bincount(labels - low) > 0
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[labels - low]
