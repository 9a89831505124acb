"""Sampling weights against published class masses, and the samplers against their weights."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.longtail import exponential_counts
from tailcloud.errors import UsageError
from tailcloud.sampling import WEIGHTS, WeightedSampler, class_shares, make_sampler, sample_weights

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
        ("pb", {}, 0.403, 0.0040, 100, 1.0),
        ("pb", {"share": 0.5}, 0.2515, 0.0520, 4.836, 12.9),
        ("pb", {"share": 1.0}, 0.100, 0.100, 1, 24.8),
        ("class-aware", {}, 0.100, 0.100, 1, 24.8),
        ("reverse", {}, 0.0040, 0.402, 0.01, 99.8),
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


@pytest.mark.parametrize("name", ["cb", "en", "cben", "pb", "reverse", "class-aware"])
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
    with pytest.raises(UsageError, match="consecutive"):
        sample_weights("class-aware", [1, 2], consecutive=0)


def test_instance_balanced_shows_every_image_once():
    sampler = make_sampler("ib", [0, 1, 1, 2], 3)
    drawn = sampler.draw(np.random.default_rng(0))
    assert sorted(drawn.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["cb", "en", "cben", "sqrt", "reverse", "class-aware"])
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


@pytest.mark.parametrize(("drawn", "image"), [(0.0, 0), (1 - 2**-53, 4)])
def test_the_least_and_the_largest_draw_are_images_of_classes_that_have_some(drawn, image):
    class Always:
        def random(self, size):
            return np.full(size, drawn)

    sampler = WeightedSampler([1, 1, 2, 2, 2], sample_weights("cb", [0, 2, 3, 0]))
    assert sampler.draw(Always()).tolist() == [image] * 5


def test_class_shares_are_those_at_the_end_of_a_stage_and_an_absent_class_is_taken_for_one_image():
    np.testing.assert_allclose(class_shares("pb", [6, 2]), [0.5, 0.5])
    np.testing.assert_allclose(class_shares("ib", [6, 2, 0]), [6 / 9, 2 / 9, 1 / 9])
    np.testing.assert_allclose(class_shares("cb", [6, 2, 0]), [1 / 3] * 3)


def test_draws_do_not_depend_on_the_blocks_they_are_made_in(monkeypatch):
    labels = np.random.default_rng(2).integers(0, 7, 1000)
    whole = make_sampler("sqrt", labels, 7).draw(np.random.default_rng(5))
    monkeypatch.setattr("tailcloud.sampling.BLOCK", 64)
    assert np.array_equal(make_sampler("sqrt", labels, 7).draw(np.random.default_rng(5)), whole)


def test_same_generator_same_epoch():
    sampler = make_sampler("cb", [0, 0, 0, 1], 2)
    assert (sampler.draw(np.random.default_rng(5)) == sampler.draw(np.random.default_rng(5))).all()


@given(counts=st.lists(st.integers(1, 5000), min_size=1, max_size=20), share=st.floats(0, 1))
def test_progressive_and_reversed_masses_match_their_formulas(counts, share):
    total, classes = sum(counts), len(counts)
    progressive = [(1 - share) * n / total + share / classes for n in counts]
    np.testing.assert_allclose(masses("pb", counts, share=share), progressive, rtol=1e-9)
    backwards = [1 / n / sum(1 / m for m in counts) for n in counts]
    np.testing.assert_allclose(masses("reverse", counts), backwards, rtol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.995])
def test_a_progressive_sampler_follows_its_share_of_the_stage(share):
    counts = [6000, 900, 100, 0]
    labels = np.repeat(np.arange(4), counts)
    drawn = make_sampler("pb", labels, 4).draw(np.random.default_rng(0), share)
    found = np.bincount(labels[drawn], minlength=4) / len(drawn)
    assert np.abs(found - masses("pb", counts, share=share)).max() < 4 * np.sqrt(0.25 / len(drawn))


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    consecutive=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_class_aware_sampling_goes_through_classes_and_their_images_in_turn(counts, consecutive, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    sampler = make_sampler("class-aware", labels, len(counts), consecutive=consecutive)
    drawn = sampler.draw(np.random.default_rng(seed)).tolist()
    assert len(drawn) == len(labels)
    visits = [labels[drawn[at : at + consecutive]].tolist() for at in range(0, len(drawn), consecutive)]
    assert all(len(set(visit)) == 1 for visit in visits)
    order, present = [visit[0] for visit in visits], sum(n > 0 for n in counts)
    for at in range(0, len(order), present):
        assert len(set(order[at : at + present])) == len(order[at : at + present])
    for c, n in enumerate(counts):
        shown = [image for image in drawn if labels[image] == c]
        for at in range(0, len(shown), n or 1):
            assert len(set(shown[at : at + n])) == len(shown[at : at + n])


def test_class_aware_orders_are_shuffled_anew():
    labels = np.repeat([0, 1], [1000, 10])
    drawn = make_sampler("class-aware", labels, 2).draw(np.random.default_rng(0))
    in_turn = labels[drawn[:1008]].reshape(-1, 4)  # four images of a class, unless the recipe says otherwise
    assert (in_turn == in_turn[:, :1]).all()
    rare = drawn[drawn >= 1000]
    rounds = {tuple(rare[at : at + 10]) for at in range(0, 500, 10)}
    assert len(rounds) == 50
    assert not np.array_equal(drawn, make_sampler("class-aware", labels, 2).draw(np.random.default_rng(1)))
