"""Sentences about a survey: duplicates, leaks into training, sizes, classes too small to measure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import SMALLEST_TO_SHARE
from tailcloud.data.image_io import Header
from tailcloud.data.inspection.duplicates import Duplicates
from tailcloud.data.inspection.survey import Survey
from tailcloud.formatting import counted, number
from tailcloud.profile import classes_text

Vector = NDArray[np.int64]

SMALLEST_TO_MEASURE = 10  # test images: with fewer, one image is more than ten points of the class's accuracy
INFLATED = "the accuracy will look better than it is"
SPLIT_TITLES = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class DuplicatePair:
    """Two images that are the same or nearly so."""

    first: int
    second: int
    exact: bool
    across: bool  # in different splits
    disagreeing: bool  # of different classes


def listed_pairs(survey: Survey, found: Duplicates) -> list[DuplicatePair]:
    """All pairs: those across splits first, then those of different classes, the same pixels before nearly the same."""
    splits, labels = np.array(survey.splits), survey.labels
    pairs = [
        DuplicatePair(one, other, exact, bool(splits[one] != splits[other]), bool(labels[one] != labels[other]))
        for exact, rows in ((True, found.same), (False, found.near))
        for one, other in rows.tolist()
    ]
    return sorted(pairs, key=lambda pair: (not pair.across, not pair.disagreeing, not pair.exact, pair.first))


def leaks(survey: Survey, found: Duplicates) -> dict[str, int]:
    """How many images of validation and test are in training too, the same or nearly so; only splits with any."""
    return shared_with_training(survey, found.sets(len(survey.labels)))


def shared_with_training(survey: Survey, groups: Vector) -> dict[str, int]:
    """How many images of validation and test are of a group that training has too; only splits with any."""
    splits = np.array(survey.splits)
    trained = np.isin(groups, groups[splits == "train"])
    counts = {split: int((trained & (splits == split)).sum()) for split in ("val", "test")}
    return {split: count for split, count in counts.items() if count}


def share_of_split(survey: Survey, split: str, count: int) -> str:
    """ "3 of 40 test images (7.5 %)"."""
    total = survey.splits.count(split)
    share = number(100 * count / total, 1 if 100 * count >= total else 2)
    return f"{count:,} of {counted(total, SPLIT_TITLES[split] + ' image')} ({share} %)"


def duplicate_sentences(survey: Survey, found: Duplicates) -> Iterator[str]:
    """What the pairs mean."""
    one_split = ", or keep each set of them in one split: --set data.group=duplicates"
    can_group = survey.files is not None and not survey.splits_named and survey.options.group is None
    way_out = f" Remove the copies{one_split if can_group else ''}." if survey.names else ""
    for split, count in leaks(survey, found).items():
        twice = f"{'is' if count == 1 else 'are'} in training too, the same or nearly so"
        yield f"{share_of_split(survey, split, count)} {twice}: {INFLATED}.{way_out}"
    pairs = listed_pairs(survey, found)
    if disagreeing := sum(pair.disagreeing for pair in pairs):
        pairs_are = f"{counted(disagreeing, 'pair')} of similar images {'is' if disagreeing == 1 else 'are'}"
        yield f"{pairs_are} of different classes: one of the labels may be wrong."
    if found.flat:
        yield f"{counted(found.flat, 'image')} with hardly any contrast: compared for the same pixels only."
    if found.curtailed:
        yield "So many images look alike that not all of them were compared with each other."


def size_facts(headers: Sequence[Header]) -> list[tuple[str, str]]:
    """Names and values of facts about the files: their sizes and modes."""
    if not headers:
        return []
    sides = np.array([(header.width, header.height) for header in headers])
    places = np.argsort(sides.prod(axis=1), kind="stable")
    small, median, large = ("{}×{}".format(*sides[places[at]]) for at in (0, len(places) // 2, -1))
    modes = Counter(header.mode for header in headers).most_common()
    return [
        ("smallest, median, largest", f"{small}, {median}, {large}"),
        ("different sizes", f"{len(np.unique(sides, axis=0)):,}"),
        ("not square", f"{int((sides[:, 0] != sides[:, 1]).sum()):,} of {len(sides):,}"),
        ("color modes", ", ".join(f"{mode} {count:,}" for mode, count in modes)),
    ]


def small_class_sentences(survey: Survey) -> Iterator[str]:
    """Classes with too few images to validate, or to measure."""
    counts, names = survey.counts(), survey.class_names
    trained = counts["train"] if "train" in counts and "val" not in counts else np.zeros(0, np.int64)
    if few := np.flatnonzero((trained > 0) & (trained < SMALLEST_TO_SHARE)).tolist():
        yield f"{classes_text(few, names)}: fewer than {SMALLEST_TO_SHARE} training images, too few to validate."
    for split in ("val", "test"):
        measured = counts.get(split, np.zeros(0, np.int64))
        if few := np.flatnonzero((measured > 0) & (measured < SMALLEST_TO_MEASURE)).tolist():
            yield (
                f"{classes_text(few, names)}: fewer than {SMALLEST_TO_MEASURE} {SPLIT_TITLES[split]} images, so one "
                "image changes the accuracy of the class by more than ten points."
            )
