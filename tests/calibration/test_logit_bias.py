"""Temperature and logit bias against a plain search, and properties of every fit."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.oracles import calibration as oracle
from tailcloud.calibration.logit_bias import MAX_TAU
from tailcloud.calibration.logit_bias import fit_temperature_and_bias as fit
from tailcloud.calibration.logit_bias import log_likelihood_gain as gain
from tailcloud.calibration.temperature import MAX_TEMPERATURE, MIN_TEMPERATURE, fit_temperature

COUNTS = np.array([200, 60, 15, 4])
DIRECTION = np.log(COUNTS) - np.log(COUNTS).mean()


def drawn(seed, images=60, temperature=1.0, bias=0.0):
    """Logits, and classes drawn from softmax(z / T + bias·t + shift); and that shift."""
    random = np.random.default_rng(seed)
    logits, shift = 2 * random.standard_normal((images, 4)), random.standard_normal(4)
    weights = np.exp(logits / temperature + bias * DIRECTION + shift)
    return logits, np.array([random.choice(4, p=row / row.sum()) for row in weights]), shift


def mean_nll(found, logits, target, shift):
    return oracle.biased_nll(logits.tolist(), target, 1 / found[0], found[1], DIRECTION, shift)


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([-3.0, -0.5, 0.0, 1.0]))
@settings(max_examples=15, deadline=None)
def test_it_is_where_a_grid_search_ends(seed, temperature, bias):
    logits, target, shift = drawn(seed, 30, temperature, bias)
    found = fit(logits, target, DIRECTION, shift)
    inverse, tau = oracle.best_bias(logits.tolist(), target, DIRECTION, shift)
    assert MIN_TEMPERATURE <= found[0] <= MAX_TEMPERATURE
    assert -MAX_TAU <= found[1] <= MAX_TAU
    searched = oracle.biased_nll(logits.tolist(), target, inverse, tau, DIRECTION, shift)
    assert mean_nll(found, logits, target, shift) <= searched + 1e-9
    assert (1 / found[0], found[1]) == pytest.approx((inverse, tau), abs=0.02)


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([-0.5, 0.0, 1.0]))
@settings(max_examples=25, deadline=None)
def test_a_newton_step_from_there_leads_nowhere(seed, temperature, bias):
    """The former fit was Newton's method; both agree with the minimum to seven digits."""
    logits, target, shift = drawn(seed, 60, temperature, bias)
    found, tau = fit(logits, target, DIRECTION, shift)
    assume(MIN_TEMPERATURE < found < MAX_TEMPERATURE and abs(tau) < MAX_TAU)
    steps = oracle.newton_step(logits.tolist(), target, DIRECTION, shift, 1 / found, tau)
    assert (1 / found + steps[0], tau + steps[1]) == pytest.approx((1 / found, tau), rel=1e-6, abs=1e-7)


@given(st.integers(0, 1000), st.floats(-0.3, 0.3))
@settings(max_examples=25, deadline=None)
def test_more_bias_in_the_logits_is_removed(seed, more):
    """c·t more in every logit is c / T less in τ, and z + T·τ·t stays as it is."""
    logits, target, shift = drawn(seed, images=200)
    temperature, tau = fit(logits, target, DIRECTION, shift)
    other = fit(logits + more * DIRECTION, target, DIRECTION, shift)
    assert other == pytest.approx((temperature, tau - more / temperature), abs=1e-5)
    assert more + other[0] * other[1] == pytest.approx(temperature * tau, abs=1e-4)


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_an_impossible_class_has_no_effect(seed):
    logits, target, shift = drawn(seed, bias=0.4)
    others = target != 3
    logits, target, nowhere = logits[others], target[others], np.where(np.arange(4) == 3, -np.inf, shift)
    without = logits[:, :3], target, DIRECTION[:3], shift[:3]
    found = fit(logits, target, DIRECTION, nowhere)
    assert found == pytest.approx(fit(*without), abs=1e-5)
    assert gain(logits, target, DIRECTION, nowhere, *found) == pytest.approx(gain(*without, *found), abs=1e-6)


@given(st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_the_gain_is_that_of_all_images_over_the_best_temperature_alone(seed):
    logits, target, shift = drawn(seed, 40, 2.0, 0.8)
    found = fit(logits, target, DIRECTION, shift)
    expected = oracle.gain_of_bias(logits.tolist(), target, DIRECTION, shift, 1 / found[0], found[1])
    assert gain(logits, target, DIRECTION, shift, *found) == pytest.approx(expected, abs=1e-3)


@given(st.integers(0, 1000), st.permutations(range(4)))
@settings(max_examples=15, deadline=None)
def test_the_order_of_classes_does_not_matter(seed, order):
    logits, target, shift = drawn(seed, bias=0.4)
    places = np.argsort(order)
    other = fit(logits[:, order], places[target], DIRECTION[order], shift[order])
    assert other == pytest.approx(fit(logits, target, DIRECTION, shift), abs=1e-6)


@given(st.integers(0, 1000), st.floats(-4, 4))
@settings(max_examples=25, deadline=None)
def test_it_is_no_worse_than_a_temperature_alone_which_then_has_nothing_to_add(seed, bias):
    logits, target, shift = drawn(seed, bias=bias)
    found = fit(logits, target, DIRECTION, shift)
    alone = fit_temperature(logits, target, shift)
    assert mean_nll(found, logits, target, shift) <= mean_nll((alone, 0.0), logits, target, shift) + 1e-12
    if MIN_TEMPERATURE < found[0] < MAX_TEMPERATURE and abs(found[1]) < MAX_TAU:
        adjusted = logits + found[0] * found[1] * DIRECTION
        assert fit_temperature(adjusted, target, shift) == pytest.approx(found[0], abs=1e-4)


@pytest.mark.parametrize(("temperature", "bias"), [(1.0, 0.0), (1.0, 0.7), (2.5, -0.4), (0.5, 0.2)])
def test_it_recovers_what_classes_were_drawn_with(temperature, bias):
    logits, target, shift = drawn(0, 6000, temperature, bias)
    found = fit(logits, target, DIRECTION, shift)
    assert found[0] == pytest.approx(temperature, rel=0.08)
    assert found[1] == pytest.approx(bias, abs=0.06)


def test_it_stays_within_bounds_where_there_is_no_minimum():
    sure = 5 * np.eye(4)[[0, 1, 2, 3]]
    assert MIN_TEMPERATURE <= fit(sure, np.arange(4), DIRECTION)[0] < 2 * MIN_TEMPERATURE  # the rest is below rounding
    assert fit(sure, np.array([1, 2, 3, 0]), DIRECTION)[0] == pytest.approx(MAX_TEMPERATURE)
    flat = 1e-3 * np.random.default_rng(0).standard_normal((30, 4))
    for always, end in ((0, MAX_TAU), (3, -MAX_TAU)):
        assert fit(flat, np.full(30, always), DIRECTION)[1] == pytest.approx(end)
    wrong = 1e4 * np.eye(4)[[0, 1, 2, 3]]  # so sure that no curvature is left
    assert fit(wrong, np.array([1, 2, 3, 0]), DIRECTION)[0] == pytest.approx(MAX_TEMPERATURE)


def test_what_has_no_effect_stays_at_one_and_zero():
    logits, target, shift = drawn(0)
    assert fit(np.zeros((20, 4)), target[:20], DIRECTION, shift)[0] == 1
    assert fit(logits, target, np.zeros(4), shift)[1] == 0
    assert fit(logits, target, np.zeros(4), shift)[0] == pytest.approx(fit_temperature(logits, target, shift))
    assert fit(np.array([[3.0], [4.0]]), np.array([0, 0]), np.zeros(1)) == (1, 0)


def test_logits_that_are_not_finite_are_left_out():
    logits, target, shift = drawn(0)
    more = np.concatenate([[[np.nan] * 4, [0.0, 0.0, np.inf, 0.0]], logits])
    assert fit(more, np.array([0, 1, *target]), DIRECTION, shift) == fit(logits, target, DIRECTION, shift)
    assert fit(more[:2], np.array([0, 1]), DIRECTION, shift) == (1, 0)


def test_balanced_logits_on_long_tailed_images_have_no_bias():
    random = np.random.default_rng(0)
    mix = np.array([0.7, 0.2, 0.08, 0.02])
    target, means = random.choice(4, 50_000, p=mix), np.array([1.0, 0.0, 2.0, 3.0])
    seen = means[target] + random.standard_normal(50_000)
    logits = -((seen[:, None] - means) ** 2) / 2  # log p(x | j), up to a constant
    assert fit(logits, target, DIRECTION, np.log(mix)) == pytest.approx((1, 0), abs=0.05)
    assert fit(logits, target, DIRECTION)[1] > 0.5
