"""Rare classes come first, then the least probable labels, then duplicates that do harm."""

from dataclasses import replace

import numpy as np

from tailcloud.data.inspection.duplicates import Duplicates
from tailcloud.review.confident_learning import HeldOutPredictions
from tailcloud.review.review_items import review_items, typical_images

NOTHING = np.empty((0, 2), np.int64)


def predictions(images, contradicted):
    """Sure of every label, apart from some images: {image: (suggested, probability of the label)}."""
    own, predicted = np.full(len(images), 0.9), images.labels.copy()
    for image, (suggested, probability) in contradicted.items():
        own[image], predicted[image] = probability, suggested
    probability = np.where(predicted == images.labels, own, 0.8)
    return HeldOutPredictions(own, predicted, probability, np.ones(len(images), bool))


def test_rare_classes_come_first_then_the_least_probable_labels(images):
    images = replace(images, counts=np.array([400, 300, 5]))
    found = predictions(images, {0: (1, 0.001), 4: (0, 0.01), 1: (2, 0.15), 6: (1, 0.1)})
    assert [item.image for item in review_items(images, found, None)] == [6, 1, 0, 4]


def test_duplicates_of_two_classes_come_before_those_in_two_splits(images):
    """Of two classes: the less probable label is in question. In two splits: not the test image."""
    found = predictions(images, {6: (0, 0.7)})
    found.predicted[:] = images.labels
    pairs = Duplicates(same=np.array([[3, 8], [2, 3]]), near=np.array([[1, 6], [5, 6], [4, 9]]))
    items = review_items(images, found, pairs)
    assert [(item.image, item.other, item.suggested, item.exact) for item in items] == [
        (6, 1, 0, False),
        (3, 8, 0, True),
        (4, 9, 1, False),
    ]


def test_without_duplicates_there_are_none(images):
    found = predictions(images, {})
    assert review_items(images, found, Duplicates(NOTHING, NOTHING)) == []


def test_typical_images_are_the_most_probable_of_their_class(images):
    found = predictions(images, {0: (1, 0.2), 1: (1, 0.5)})
    images = replace(images, class_names=[*images.class_names, "absent"], counts=np.array([4, 2, 2, 0]))
    assert typical_images(images, found) == [[2, 3, 8, 1, 0], [4, 5, 9], [6, 7], []]
