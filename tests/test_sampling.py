"""Sampling weights against published class masses, and the samplers against their weights."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.longtail import exponential_counts
from tailcloud.errors import UsageError
from tailcloud.sampling import WEIGHTS, WeightedSampler, make_sampler, sample_weights

CIFAR10_LT = exponential_counts(5000, 10, 100)
RELEASED = {"a": 0.9999, "b": 1e-5}


def masses(name, counts, **options):
    mass = np.array(counts) * sample_weights(name, counts, **options)
    return mass / mass.sum()


@pytest.mark.parametrize(
    ("name", "options", "head", "tail", "ratio", "seen"),
    [
        ("ib", {}, 0.403, 0.0040, 100, 1.0),
        ("sqrt", {}, 0.245, 0.0245, 10, 6.1),
        ("cb", {}, 0.100, 0.100, 1, 24.8),
        ("en", {}, 0.119, 0.094, 1.268, 23.3),
        ("cben", {}, 0.286, 0.057, 5.02, 14.1),
        ("cben", RELEASED, 0.119, 0.094, 1.268, 23.4),
    ],
)
def test_class_masses_on_cifar10_lt(name, options, head, tail, ratio, seen):
    mass = masses(name, CIFAR10_LT, **options)
    assert mass[0] == pytest.approx(head, abs=6e-4)
    assert mass[-1] == pytest.approx(tail, abs=6e-4)
    assert mass[0] / mass[-1] == pytest.approx(ratio, rel=5e-3)
    assert mass[-1] * sum(CIFAR10_LT) / CIFAR10_LT[-1] == pytest.approx(seen, abs=0.1)


@given(counts=st.lists(st.integers(1, 5000), min_size=2, max_size=20), a=st.floats(0.5, 0.999), b=st.floats(0, 0.0009))
def test_cben_matches_the_equations(counts, a, b):
    deltas = [math.log(max(counts)) - math.log(n) for n in counts]
    expected = []
    for n, delta in zip(counts, deltas, strict=True):
        beta = b * (delta / max(deltas) if max(deltas) else 0.0) + a
        expected.append((1 - beta) / (1 - beta**n))
    np.testing.assert_allclose(sample_weights("cben", counts, a=a, b=b), expected, rtol=1e-9)


@pytest.mark.parametrize("name", WEIGHTS)
@given(counts=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=30).filter(any))
def test_weights_are_finite_positive_and_zero_for_absent_classes(name, counts):
    weights = sample_weights(name, counts)
    assert np.isfinite(weights).all()
    assert ((weights > 0) == (np.array(counts) > 0)).all()


@pytest.mark.parametrize("name", ["cb", "en", "cben"])
def test_balanced_counts_have_equal_weights(name):
    weights = sample_weights(name, [30, 30, 30])
    assert (weights == weights[0]).all()


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_the_effective_number_has_its_limits(beta):
    expected = [1.0, 1.0] if beta == 0 else [1 / 5, 1 / 2]
    np.testing.assert_allclose(sample_weights("en", [5, 2], beta=beta), expected)


def test_a_wrong_name_or_beta_is_refused():
    with pytest.raises(UsageError, match='did you mean "cben"'):
        sample_weights("cbn", [1, 2])
    with pytest.raises(UsageError, match=r"\[0, 1\]"):
        sample_weights("en", [1, 2], beta=1.5)


def test_instance_balanced_shows_every_image_once():
    sampler = make_sampler("ib", [0, 1, 1, 2], 3)
    drawn = sampler.draw(np.random.default_rng(0))
    assert sorted(drawn.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["cb", "en", "cben", "sqrt"])
def test_draws_follow_the_class_masses_and_are_even_within_a_class(name):
    counts = [4000, 900, 100, 0]
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(4), counts))
    drawn = make_sampler(name, labels, 4).draw(np.random.default_rng(0))
    assert len(drawn) == len(labels)
    share = np.bincount(labels[drawn], minlength=4) / len(drawn)
    expected = masses(name, counts)
    assert np.abs(share - expected).max() < 4 * np.sqrt(0.25 / len(drawn))
    rare = np.flatnonzero(labels == 2)
    seen = np.bincount(drawn, minlength=len(labels))[rare]
    assert seen.max() < seen.mean() + 6 * np.sqrt(seen.mean())
    assert (seen > 0).mean() > 0.9


def test_an_absent_last_class_is_never_drawn():
    class Almost:
        def random(self, size):
            return np.full(size, 1 - 2**-53)

    sampler = WeightedSampler([0, 0, 1], sample_weights("cb", [2, 1, 0]))
    assert sampler.draw(Almost()).tolist() == [2, 2, 2]


def test_draws_do_not_depend_on_the_blocks_they_are_made_in(monkeypatch):
    labels = np.random.default_rng(2).integers(0, 7, 1000)
    whole = make_sampler("sqrt", labels, 7).draw(np.random.default_rng(5))
    monkeypatch.setattr("tailcloud.sampling.BLOCK", 64)
    assert np.array_equal(make_sampler("sqrt", labels, 7).draw(np.random.default_rng(5)), whole)


def test_same_generator_same_epoch():
    sampler = make_sampler("cb", [0, 0, 0, 1], 2)
    assert (sampler.draw(np.random.default_rng(5)) == sampler.draw(np.random.default_rng(5))).all()
