"""Suspects are those of the formula, for any probabilities; classes that cannot be judged have none."""

import numpy as np
import pytest

from helpers.oracles import confident_learning as oracle
from tailcloud.review.confident_learning import (
    HIGHEST_THRESHOLD,
    PRIOR_IMAGES,
    HeldOutPredictions,
    find_suspects,
    thresholds,
)


def held_out(probabilities, labels, judged=None):
    rows = np.arange(len(labels))
    return HeldOutPredictions(
        probabilities[rows, labels],
        probabilities.argmax(axis=1),
        probabilities.max(axis=1),
        np.ones(len(labels), bool) if judged is None else judged,
    )


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_the_formula(seed):
    random = np.random.RandomState(seed)
    labels = np.concatenate([np.arange(6), random.randint(0, 3, 80)])  # classes of one image, and one of none
    probabilities = random.dirichlet([0.3] * 7, len(labels))
    judged = random.rand(len(labels)) < 0.9
    found = held_out(probabilities, labels, judged)
    needed = thresholds(found.label_probability, labels, 7)
    np.testing.assert_allclose(needed, oracle.thresholds(probabilities, labels, PRIOR_IMAGES), rtol=1e-12)
    expected = oracle.suspects(probabilities, labels, judged, PRIOR_IMAGES, HIGHEST_THRESHOLD)
    assert find_suspects(found, labels, 7).tolist() == expected
    assert 0 < len(expected) < len(labels)


def test_right_labels_are_no_suspects():
    labels = np.array([0, 0, 1, 1, 2])
    assert find_suspects(held_out(np.eye(3)[labels], labels), labels, 3).tolist() == []


def test_a_class_on_which_the_model_is_unsure_needs_less():
    """As in the paper: 0.45 is confident for a class that gets 0.4 at its own images, and not for one that gets 0.9."""
    labels = np.array([0] * 40 + [1] * 40 + [2, 2])
    probabilities = np.array([[0.9, 0.05, 0.05]] * 40 + [[0.35, 0.4, 0.25]] * 40 + [[0.1, 0.45, 0.45]] * 2)
    probabilities[-2:] = [[0.45, 0.28, 0.27], [0.28, 0.45, 0.27]]
    assert find_suspects(held_out(probabilities, labels), labels, 3).tolist() == [81]


def test_a_very_sure_model_does_not_hide_what_it_contradicts():
    """Thresholds near 1, as of classes that are easy, would leave out an image that is 0.8 another class."""
    labels = np.array([0] * 50 + [1] * 50)
    probabilities = np.array([[0.99, 0.01]] * 50 + [[0.01, 0.99]] * 50)
    probabilities[7] = 0.2, 0.8
    assert find_suspects(held_out(probabilities, labels), labels, 2).tolist() == [7]
