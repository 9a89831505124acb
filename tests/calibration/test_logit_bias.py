"""Temperature and tilt against a plain search, and what must hold for every such fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import deployed as oracle
from tailcloud.calibration.logit_bias import STEEPEST, fit_tilt, gained
from tailcloud.calibration.temperature import COLDEST, HOTTEST, fit_temperature

COUNTS = np.array([200, 60, 15, 4])
TILT = np.log(COUNTS) - np.log(COUNTS).mean()


def drawn(seed, images=60, temperature=1.0, lean=0.0):
    """Logits, and classes drawn from softmax(z / T + lean·t + shift); and that shift."""
    random = np.random.default_rng(seed)
    logits, shift = 2 * random.standard_normal((images, 4)), random.standard_normal(4)
    weights = np.exp(logits / temperature + lean * TILT + shift)
    return logits, np.array([random.choice(4, p=row / row.sum()) for row in weights]), shift


def mean_nll(found, logits, target, shift):
    return oracle.tilted_nll(logits.tolist(), target, 1 / found[0], found[1], TILT, shift)


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([-3.0, -0.5, 0.0, 1.0]))
@settings(max_examples=15, deadline=None)
def test_it_is_where_a_plain_search_ends(seed, temperature, lean):
    logits, target, shift = drawn(seed, 30, temperature, lean)
    found = fit_tilt(logits, target, TILT, shift)
    inverse, tau = oracle.best_tilt(logits.tolist(), target, TILT, shift)
    assert COLDEST <= found[0] <= HOTTEST
    assert -STEEPEST <= found[1] <= STEEPEST
    searched = oracle.tilted_nll(logits.tolist(), target, inverse, tau, TILT, shift)
    assert mean_nll(found, logits, target, shift) <= searched + 1e-9
    assert (1 / found[0], found[1]) == pytest.approx((inverse, tau), abs=0.02)


@given(st.integers(0, 1000), st.floats(-0.3, 0.3))
@settings(max_examples=25, deadline=None)
def test_logits_that_lean_further_are_brought_back_to_the_same_ones(seed, more):
    """c·t more in every logit is c / T less in τ, and z + T·τ·t stays as it is."""
    logits, target, shift = drawn(seed, images=200)
    temperature, tau = fit_tilt(logits, target, TILT, shift)
    other = fit_tilt(logits + more * TILT, target, TILT, shift)
    assert other == pytest.approx((temperature, tau - more / temperature), abs=1e-5)
    assert more + other[0] * other[1] == pytest.approx(temperature * tau, abs=1e-4)


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_a_class_that_no_image_can_be_of_has_no_part_in_it(seed):
    logits, target, shift = drawn(seed, lean=0.4)
    others = target != 3
    logits, target, nowhere = logits[others], target[others], np.where(np.arange(4) == 3, -np.inf, shift)
    without = logits[:, :3], target, TILT[:3], shift[:3]
    found = fit_tilt(logits, target, TILT, nowhere)
    assert found == pytest.approx(fit_tilt(*without), abs=1e-5)
    assert gained(logits, target, TILT, nowhere, *found) == pytest.approx(gained(*without, *found), abs=1e-6)


@given(st.integers(0, 1000), st.permutations(range(4)))
@settings(max_examples=15, deadline=None)
def test_the_order_of_classes_does_not_matter(seed, order):
    logits, target, shift = drawn(seed, lean=0.4)
    places = np.argsort(order)
    other = fit_tilt(logits[:, order], places[target], TILT[order], shift[order])
    assert other == pytest.approx(fit_tilt(logits, target, TILT, shift), abs=1e-6)


@given(st.integers(0, 1000), st.floats(-4, 4))
@settings(max_examples=25, deadline=None)
def test_it_is_no_worse_than_a_temperature_alone_which_then_has_nothing_to_add(seed, lean):
    logits, target, shift = drawn(seed, lean=lean)
    found = fit_tilt(logits, target, TILT, shift)
    alone = fit_temperature(logits, target, shift)
    assert mean_nll(found, logits, target, shift) <= mean_nll((alone, 0.0), logits, target, shift) + 1e-12
    if COLDEST < found[0] < HOTTEST and abs(found[1]) < STEEPEST:
        levelled = logits + found[0] * found[1] * TILT
        assert fit_temperature(levelled, target, shift) == pytest.approx(found[0], abs=1e-4)


@pytest.mark.parametrize(("temperature", "lean"), [(1.0, 0.0), (1.0, 0.7), (2.5, -0.4), (0.5, 0.2)])
def test_what_classes_were_drawn_with_is_found(temperature, lean):
    logits, target, shift = drawn(0, 6000, temperature, lean)
    found = fit_tilt(logits, target, TILT, shift)
    assert found[0] == pytest.approx(temperature, rel=0.08)
    assert found[1] == pytest.approx(lean, abs=0.06)


def test_it_stays_within_bounds_where_there_is_no_minimum():
    sure = 5 * np.eye(4)[[0, 1, 2, 3]]
    assert COLDEST <= fit_tilt(sure, np.arange(4), TILT)[0] < 2 * COLDEST  # the rest is below rounding
    assert fit_tilt(sure, np.array([1, 2, 3, 0]), TILT)[0] == pytest.approx(HOTTEST)
    flat = 1e-3 * np.random.default_rng(0).standard_normal((30, 4))
    for always, end in ((0, STEEPEST), (3, -STEEPEST)):
        assert fit_tilt(flat, np.full(30, always), TILT)[1] == pytest.approx(end)
    wrong = 1e4 * np.eye(4)[[0, 1, 2, 3]]  # so sure that no curvature is left
    assert fit_tilt(wrong, np.array([1, 2, 3, 0]), TILT)[0] == pytest.approx(HOTTEST)


def test_what_does_not_matter_stays_at_one_and_zero():
    logits, target, shift = drawn(0)
    assert fit_tilt(np.zeros((20, 4)), target[:20], TILT, shift)[0] == 1
    assert fit_tilt(logits, target, np.zeros(4), shift)[1] == 0
    assert fit_tilt(logits, target, np.zeros(4), shift)[0] == pytest.approx(fit_temperature(logits, target, shift))
    assert fit_tilt(np.array([[3.0], [4.0]]), np.array([0, 0]), np.zeros(1)) == (1, 0)


def test_logits_that_are_no_numbers_have_no_part_in_it():
    logits, target, shift = drawn(0)
    more = np.concatenate([[[np.nan] * 4, [0.0, 0.0, np.inf, 0.0]], logits])
    assert fit_tilt(more, np.array([0, 1, *target]), TILT, shift) == fit_tilt(logits, target, TILT, shift)
    assert fit_tilt(more[:2], np.array([0, 1]), TILT, shift) == (1, 0)


def test_balanced_logits_on_long_tailed_images_do_not_lean():
    random = np.random.default_rng(0)
    mix = np.array([0.7, 0.2, 0.08, 0.02])
    target, means = random.choice(4, 50_000, p=mix), np.array([1.0, 0.0, 2.0, 3.0])
    seen = means[target] + random.standard_normal(50_000)
    logits = -((seen[:, None] - means) ** 2) / 2  # log p(x | j), up to a constant
    assert fit_tilt(logits, target, TILT, np.log(mix)) == pytest.approx((1, 0), abs=0.05)
    assert fit_tilt(logits, target, TILT)[1] > 0.5
