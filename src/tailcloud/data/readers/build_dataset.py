"""Pixels and their arrangement become a data set."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import Dataset, Images, Split, channel_statistics
from tailcloud.data.read_options import Fit
from tailcloud.data.readers.split_assignment import PART_NAMES, Arrangement
from tailcloud.data.splits import Vector

Mask = NDArray[np.bool_]


def order_of(arranged: Arrangement) -> Vector:
    """The images that belong to a part, part by part: so each part lies in one piece."""
    return np.concatenate([arranged.of(part) for part in PART_NAMES])


def assemble(
    arranged: Arrangement,
    images: Images,
    names: Sequence[str] | None,
    fit: Fit,
    remarks: Sequence[str],
    left_out: Collection[int] = (),
) -> Dataset:
    """The data set of ``images``, which are in the order of ``order_of``; rows ``left_out`` are not in it."""
    order, kept = order_of(arranged), np.ones(len(images), dtype=bool)
    kept[list(left_out)] = False
    whole = Split(
        images,
        arranged.labels[order],
        None if arranged.groups is None else arranged.groups[order],
        None if names is None else np.array(names, object)[order],
    )
    train, val, test = (_part(whole, arranged.parts[order] == part, kept) for part in range(len(PART_NAMES)))
    mean, std = channel_statistics(train.pixels if len(train) else images)
    return Dataset(
        spec=arranged.spec,
        train=train,
        test=test,
        class_names=arranged.class_names,
        mean=mean,
        std=std,
        val=val if len(val) else None,
        remarks=tuple(remarks),
        fit=fit,
    )


def _part(whole: Split, belongs: Mask, kept: Mask) -> Split:
    """A part in one piece: a view of the whole where nothing in it is left out."""
    rows = np.flatnonzero(belongs)
    if not len(rows) or not kept[rows].all():
        return whole.take(rows[kept[rows]])
    piece = slice(rows[0], rows[-1] + 1)
    return Split(
        whole.pixels[piece],
        whole.labels[piece],
        None if whole.groups is None else whole.groups[piece],
        None if whole.names is None else whole.names[piece],
    )
