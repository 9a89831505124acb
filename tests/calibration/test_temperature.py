"""The temperature against a plain search, and what it must never do."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.oracles import calibration as oracle
from tailcloud.calibration.temperature import MAX_TEMPERATURE, MIN_TEMPERATURE, calibration_by_group, fit_temperature
from tailcloud.evaluation.metrics import Predictions, calibration


def drawn(seed, images=40, classes=4, temperature=1.0):
    """Logits, and classes that were drawn from softmax(logits / temperature)."""
    random = np.random.default_rng(seed)
    logits = 3 * random.standard_normal((images, classes))
    weights = np.exp(logits / temperature)
    target = [random.choice(classes, p=row / row.sum()) for row in weights]
    return logits, np.array(target)


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0, 3.0]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_other_temperature_has_a_smaller_nll(seed, truth, shifted):
    logits, target = drawn(seed, temperature=truth)
    assume((logits.argmax(axis=1) != target).any())  # without a mistake the temperature is at least 1
    shift = np.random.default_rng(seed).standard_normal(4) if shifted else np.zeros(4)
    found = fit_temperature(logits, target, shift if shifted else None)
    least = oracle.nll(logits.tolist(), target, found, shift)
    for other in (found * 0.99, found * 1.01, 0.3, 1.0, 4.0):
        if MIN_TEMPERATURE <= other <= MAX_TEMPERATURE:
            assert least <= oracle.nll(logits.tolist(), target, other, shift) + 1e-9


@pytest.mark.parametrize("truth", [0.4, 1.0, 2.5])
def test_the_temperature_that_classes_were_drawn_with_is_found(truth):
    logits, target = drawn(0, images=4000, temperature=truth)
    assert fit_temperature(logits, target) == pytest.approx(truth, rel=0.06)


def test_logits_that_are_no_numbers_have_no_part_in_the_temperature():
    logits, target = drawn(0, images=50)
    more = np.concatenate([[[np.nan] * 4, [0.0, 0.0, np.inf, 0.0]], logits])
    assert fit_temperature(more, np.array([0, 1, *target])) == fit_temperature(logits, target)
    assert fit_temperature(more[:2], np.array([0, 1])) == 1.0


def test_a_long_tail_among_the_held_out_images_is_not_mistaken_for_doubt():
    """Balanced logits on long-tailed images: with the mix taken into account, T is what it is on balanced ones."""
    random = np.random.default_rng(0)
    mix = np.array([0.9, 0.09, 0.01])
    target = random.choice(3, 50_000, p=mix)
    means = np.array([1.0, 0.0, 2.0])
    images = means[target] + random.standard_normal(50_000)
    logits = -((images[:, None] - means) ** 2) / 2  # log p(x | j), up to a constant
    assert fit_temperature(logits, target, np.log(mix)) == pytest.approx(1, rel=0.05)
    assert fit_temperature(logits, target) > 1.3


def test_temperatures_stay_within_bounds_and_are_1_where_they_do_not_matter():
    sure = np.eye(3)[[0, 1, 2]] * 5
    unsure = np.concatenate([0.01 * sure, [[0.0, 1e-9, 0.0]]])  # its one mistake is by a hair
    assert fit_temperature(unsure, np.array([0, 1, 2, 0])) == pytest.approx(MIN_TEMPERATURE)
    assert fit_temperature(sure, np.array([0, 1, 2])) == 1  # no mistake says how sure it may be
    assert fit_temperature(sure, np.array([1, 2, 0])) == pytest.approx(MAX_TEMPERATURE)
    assert fit_temperature(np.zeros((5, 3)), np.zeros(5, int)) == 1
    assert fit_temperature(np.array([[3.0], [4.0]]), np.array([0, 0])) == 1


def test_each_group_is_calibrated_by_itself():
    target, predicted = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    found = calibration_by_group(Predictions(target, predicted, confidence, target == 0, 3), [500, 30, 200])
    assert found["few"] is None
    assert found["medium"] == calibration(confidence[2:3], np.array([True]))
    assert found["many"] == calibration(confidence[[0, 1, 3]], np.array([True, False, False]))
