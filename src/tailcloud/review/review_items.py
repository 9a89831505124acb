"""What a person looks at, in order: first wrong labels in rare classes, then in the others, then duplicates."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tailcloud.data.inspection.duplicates import Duplicates
from tailcloud.profile import GROUPS, shot_groups
from tailcloud.review.confident_learning import HeldOutPredictions, find_suspects
from tailcloud.review.review_images import ReviewImages

SAMPLES = 10  # images of a class for the page, which shows 8 of them and never those in question


@dataclass(frozen=True)
class ReviewItem:
    """One question to a person: is the label of ``image`` right?

    Args:
        image: its number.
        suggested: the class that it probably has.
        probability: of that class, held out.
        label_probability: of its label, held out.
        other: the number of an image that is (nearly) the same; None if the item is about the label alone.
        exact: whether both have the same pixels.
    """

    image: int
    suggested: int
    probability: float
    label_probability: float
    other: int | None = None
    exact: bool = False


def review_items(images: ReviewImages, predictions: HeldOutPredictions, found: Duplicates | None) -> list[ReviewItem]:
    """All items. Suspects are ordered by the shot group of the rarer of both classes, then by ``find_suspects``.

    Then come duplicates with different labels, of which one is wrong, and duplicates in different splits, which make
    the accuracy look better than it is. Duplicates with one label in one split do no harm and are no items.
    """
    rank = _group_ranks(images)
    suspects = [
        ReviewItem(image, int(predictions.predicted[image]), *_probabilities(predictions, image))
        for image in find_suspects(predictions, images.labels, len(images.class_names)).tolist()
    ]
    suspects.sort(key=lambda item: min(rank[images.labels[item.image]], rank[item.suggested]))  # stable
    pairs = sorted(_pairs(images, predictions, found), key=lambda item: images.labels[item.image] == item.suggested)
    return suspects + pairs


def _group_ranks(images: ReviewImages) -> list[int]:
    """0 for classes with few images, 1 for medium, 2 for many."""
    ranks, groups = [0] * len(images.class_names), shot_groups(images.counts)
    for rank, name in enumerate(reversed(GROUPS)):
        for member in groups[name].tolist():
            ranks[member] = rank
    return ranks


def _probabilities(predictions: HeldOutPredictions, image: int) -> tuple[float, float]:
    return float(predictions.probability[image]), float(predictions.label_probability[image])


def _pairs(images: ReviewImages, predictions: HeldOutPredictions, found: Duplicates | None) -> Iterator[ReviewItem]:
    """Pairs with different labels or splits; the item is about the image whose label is less probable.

    Of a pair with one label it is about the image that is not a test image, so that the test split stays as it is.
    There is one item about an image: of many that look alike, each is shown once.
    """
    if found is None:
        return
    place, shown = {"test": 0, "val": 1, "train": 2}, set[int]()
    for exact, rows in ((True, found.same), (False, found.near)):
        for pair in rows.tolist():
            if images.labels[pair[0]] != images.labels[pair[1]]:
                image, other = sorted(pair, key=lambda one: float(predictions.label_probability[one]))
            elif images.splits[pair[0]] != images.splits[pair[1]]:
                other, image = sorted(pair, key=lambda one: place[images.splits[one]])
            else:
                continue
            if image in shown:
                continue
            shown.add(image)
            probabilities = float(predictions.label_probability[other]), float(predictions.label_probability[image])
            yield ReviewItem(image, int(images.labels[other]), *probabilities, other, exact)


def typical_images(images: ReviewImages, predictions: HeldOutPredictions) -> list[list[int]]:
    """For each class, up to ``SAMPLES`` images whose label is most probable."""
    order = np.lexsort((-predictions.label_probability, images.labels))
    starts = np.searchsorted(images.labels[order], np.arange(len(images.class_names) + 1)).tolist()
    return [order[start : min(stop, start + SAMPLES)].tolist() for start, stop in pairwise(starts)]
