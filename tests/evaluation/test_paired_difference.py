"""Two models on the same images: the difference of their accuracy and its error, against plain loops."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import paired_difference as oracle
from tailcloud.errors import UsageError
from tailcloud.evaluation import Predictions, summarise
from tailcloud.evaluation.paired_difference import (
    FIGURES,
    difference_text,
    group_weights,
    image_weights,
    paired_difference,
)

COUNTS = [120, 40, 19, 2, 7]


def random_case(seed, images=60):
    random = np.random.default_rng(seed)
    target = np.concatenate([random.choice(5, images), [2]])
    return target, random.random(len(target)) < 0.6, random.random(len(target)) < 0.5


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), objective=st.sampled_from(list(FIGURES)))
def test_difference_and_error_are_those_of_plain_loops(seed, objective):
    target, before, after = random_case(seed)
    found = paired_difference(target, before, after, image_weights(target, COUNTS, objective))
    expected = oracle.difference(target.tolist(), before.tolist(), after.tolist(), COUNTS, objective)
    assert (found.before, found.after, found.error) == pytest.approx(expected, abs=1e-9)
    assert found.points == pytest.approx(expected[1] - expected[0], abs=1e-9)


@pytest.mark.parametrize("objective", FIGURES)
def test_the_accuracy_is_the_figure_of_the_result(objective):
    target, before, _ = random_case(3)
    predictions = Predictions(target, np.where(before, target, (target + 1) % 5), np.ones(len(target)), before, 5)
    found = paired_difference(target, before, before, image_weights(target, COUNTS, objective))
    assert found.before == found.after == pytest.approx(summarise(predictions, COUNTS)[FIGURES[objective]])
    assert found.error > 0  # no image changed, which is no certainty


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_shot_group_is_compared_with_its_classes_alike(seed):
    target, before, after = random_case(seed)
    weights = group_weights(target, COUNTS)
    predictions = [
        Predictions(target, np.where(right, target, (target + 1) % 5), np.ones(len(target)), right, 5)
        for right in (before, after)
    ]
    old, new = (summarise(each, COUNTS) for each in predictions)
    for name, each in weights.items():
        found = paired_difference(target, before, after, each)
        assert (found.before, found.after) == pytest.approx((old[name], new[name]))
    assert {name for name in ("many", "medium", "few") if old[name] is not None} == set(weights)
    few, as_objective = weights["few"], image_weights(target, COUNTS, "few")
    assert np.array_equal(few, as_objective)


def test_a_group_without_images_has_no_weights():
    assert list(group_weights(np.array([0, 0, 2]), [120, 40, 3])) == ["many", "few"]
    assert list(group_weights(np.array([0, 0, 1]), [120, 110])) == ["many"]


def test_a_difference_is_said_with_its_interval():
    assert difference_text(4.2, 3.1) == "+4.2 points, 95\u00a0%: −1.9 to +10.3"
    assert difference_text(20.0, 1.0) == "+20.0 points, 95\u00a0%: +18.0 to +22.0"
    assert difference_text(-20.0, 1.0) == "−20.0 points, 95\u00a0%: −22.0 to −18.0"


def test_with_many_images_alike_it_is_mcnemars_test():
    before = np.repeat([True, False, True], [900, 400, 18_700])
    after = np.repeat([False, True, True], [900, 400, 18_700])
    target = np.zeros(20_000, int)
    found = paired_difference(target, before, after, image_weights(target, [20], "overall"))
    assert found.points / found.error == pytest.approx((400 - 900) / sqrt(400 + 900), rel=1e-3)


def test_the_true_difference_is_within_two_errors_though_classes_have_one_image():
    """Ten classes of one to thirty images, of which a tenth to a fifth change: as held-out images of a long tail."""
    random, inside = np.random.default_rng(0), 0
    target = np.repeat(np.arange(10), [30, 20, 12, 8, 5, 3, 1, 1, 1, 1])
    weights = image_weights(target, [1] * 10, "balanced")
    lost, gained = np.linspace(0.15, 0.02, 10), np.linspace(0.02, 0.2, 10)
    for _ in range(400):
        chance = random.random(len(target))
        after = chance > lost[target]
        before = chance < 1 - gained[target]
        found = paired_difference(target, before, after, weights)
        true = 100 * np.mean(gained - lost)
        inside += abs(found.points - true) <= 1.96 * found.error
    assert 0.92 <= inside / 400 <= 1


def test_few_without_such_a_class_or_image_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match=r"fewer than 20 training images, and the smallest has 20; use --objective ba"):
        image_weights(np.array([0, 1]), [200, 20], "few")
    with pytest.raises(UsageError, match="none is held out; use --objective balanced"):
        image_weights(np.array([0, 0]), [200, 3], "few")
