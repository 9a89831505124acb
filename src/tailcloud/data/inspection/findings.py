"""What a survey shows that a person should see: pairs, leaks, sizes, kinds, classes too small to judge."""

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

SMALLEST_TO_JUDGE = 10  # test images: with fewer, one of them is more than ten points of the class's accuracy
PART_WORDS = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Pair:
    """Two images that are the same or nearly so."""

    first: int
    second: int
    exact: bool
    across: bool  # in different parts
    disagreeing: bool  # of different classes


def listed_pairs(survey: Survey, found: Duplicates) -> list[Pair]:
    """All pairs: those across parts first, then those of different classes, the same pixels before nearly the same."""
    parts, labels = np.array(survey.parts), survey.labels
    pairs = [
        Pair(one, other, exact, bool(parts[one] != parts[other]), bool(labels[one] != labels[other]))
        for exact, rows in ((True, found.same), (False, found.near))
        for one, other in rows.tolist()
    ]
    return sorted(pairs, key=lambda pair: (not pair.across, not pair.disagreeing, not pair.exact, pair.first))


def leaks(survey: Survey, found: Duplicates) -> dict[str, int]:
    """How many images for judging (by part) have the same or nearly the same image in training; parts with any."""
    sets, parts = found.sets(len(survey.labels)), np.array(survey.parts)
    trained = np.isin(sets, sets[parts == "train"])
    counts = {part: int((trained & (parts == part)).sum()) for part in ("val", "test")}
    return {part: count for part, count in counts.items() if count}


def duplicate_sentences(survey: Survey, found: Duplicates) -> Iterator[str]:
    """What the pairs mean."""
    way_out = " Take the copies out; where nobody named the parts, data.group can keep copies together."
    for part, count in leaks(survey, found).items():
        total = survey.parts.count(part)
        share = number(100 * count / total, 1 if 100 * count >= total else 2)
        images = f"{count:,} of {counted(total, PART_WORDS[part] + ' image')} ({share} %)"
        twice = f"{'is' if count == 1 else 'are'} in training too, the same or nearly so"
        yield f"{images} {twice}: the accuracy will look better than it is.{way_out if survey.names else ''}"
    pairs = listed_pairs(survey, found)
    if disagreeing := sum(pair.disagreeing for pair in pairs):
        pairs_are = f"{counted(disagreeing, 'pair')} of like images {'is' if disagreeing == 1 else 'are'}"
        yield f"{pairs_are} of different classes: one of the labels may be wrong."
    if found.flat:
        yield f"{counted(found.flat, 'image')} of hardly any contrast, compared for the same pixels only."
    if found.curtailed:
        yield "So many images look alike that not all of them were compared with each other."


def size_facts(headers: Sequence[Header]) -> list[tuple[str, str]]:
    """Sizes and kinds of the files, as pairs of words."""
    if not headers:
        return []
    sides = np.array([(header.width, header.height) for header in headers])
    places = np.argsort(sides.prod(axis=1), kind="stable")
    small, middle, large = ("{}×{}".format(*sides[places[at]]) for at in (0, len(places) // 2, -1))
    modes = Counter(header.mode for header in headers).most_common()
    return [
        ("smallest, middle, largest", f"{small}, {middle}, {large}"),
        ("different sizes", f"{len(np.unique(sides, axis=0)):,}"),
        ("not square", f"{int((sides[:, 0] != sides[:, 1]).sum()):,} of {len(sides):,}"),
        ("kinds of pixels", ", ".join(f"{mode} {count:,}" for mode, count in modes)),
    ]


def small_class_sentences(survey: Survey) -> Iterator[str]:
    """Classes that are too small to validate, or to judge."""
    counts, names = survey.counts(), survey.class_names
    trained = counts["train"] if "train" in counts and "val" not in counts else np.zeros(0, np.int64)
    if few := np.flatnonzero((trained > 0) & (trained < SMALLEST_TO_SHARE)).tolist():
        yield f"{classes_text(few, names)}: fewer than {SMALLEST_TO_SHARE} training images, too few to validate."
    for part in ("val", "test"):
        judged = counts.get(part, np.zeros(0, np.int64))
        if few := np.flatnonzero((judged > 0) & (judged < SMALLEST_TO_JUDGE)).tolist():
            yield (
                f"{classes_text(few, names)}: fewer than {SMALLEST_TO_JUDGE} {PART_WORDS[part]} images, so that a "
                "single one moves the accuracy of the class by more than ten points."
            )
