"""Wrong labels are put into every class, and counted as found only if they are suspects."""

import numpy as np
import wrong_labels

from tailcloud.review.confident_learning import HeldOutPredictions

RIGHT = np.repeat(np.arange(3), [100, 40, 10])


def test_every_class_gets_its_share():
    given = wrong_labels.with_wrong_labels(RIGHT, 3, seed=0)
    wrong = given != RIGHT
    assert np.bincount(given[wrong], minlength=3).tolist() == [5, 2, 1]  # 5 %, at least one
    assert (np.bincount(given[~wrong], minlength=3) >= 8).all()


def test_what_an_oracle_would_find():
    given = wrong_labels.with_wrong_labels(RIGHT, 3, seed=0)
    sure = HeldOutPredictions(np.where(given == RIGHT, 0.9, 0.1), RIGHT, np.full(150, 0.9), np.ones(150, bool))
    everything, tail = wrong_labels.measure(sure, given, RIGHT, 3)
    assert everything == {
        "labelled": "all",
        "images": 150,
        "wrong": 8,
        "suspects": 8,
        "found": 8,
        "first": 8,
        "first_by_margin": 8,
    }
    assert (tail["wrong"], tail["found"]) == (1, 1)
