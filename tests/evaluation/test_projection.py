"""Which images a map shows, and what t-SNE makes of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.evaluation.projection import align_map, choose_classes, choose_images, project


def test_classes_come_from_the_whole_range_of_frequencies():
    counts = np.arange(1000, 0, -1)
    chosen = choose_classes(counts, 100)
    assert (len(chosen), chosen[0], chosen[-1], len(set(chosen))) == (100, 0, 999, 100)
    assert choose_classes([3, 0, 9], 100).tolist() == [2, 0]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=12), st.integers(0, 5))
def test_all_of_the_tail_and_at_most_so_many_of_the_rest(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    chosen = choose_images(labels, np.arange(len(counts)), 200, seed)
    again = choose_images(labels, np.arange(len(counts)), 200, seed)
    assert chosen.positions.tolist() == again.positions.tolist()
    assert len(set(chosen.positions.tolist())) == len(chosen.positions)
    drawn = np.bincount(labels[chosen.positions], minlength=len(counts))
    assert drawn.tolist() == [min(count, chosen.per_class) for count in counts]
    assert all(drawn[c] == count for c, count in enumerate(counts) if count < 20)


def test_neighbours_stay_together_and_a_seed_repeats():
    labels = np.repeat(np.arange(3), 20)
    features = np.eye(3)[labels] * 10 + np.random.default_rng(0).normal(size=(60, 3))
    drawn = project(features, seed=1)
    assert drawn.shape == (60, 2)
    assert np.abs(drawn).max() == pytest.approx(1)
    np.testing.assert_array_equal(drawn, project(features, seed=1))
    away = np.linalg.norm(drawn[:, None] - drawn[None], axis=2) + 9 * np.eye(60)
    assert (labels[away.argmin(axis=1)] == labels).all()


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (4, 5), (6, 1)])
def test_very_few_points_or_dimensions_have_a_map_too(shape):
    drawn = project(np.random.default_rng(0).normal(size=shape), seed=0)
    assert drawn.shape == (shape[0], 2)
    assert np.isfinite(drawn).all()


def test_a_turned_and_mirrored_map_is_turned_back():
    points = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    points /= np.abs(points).max()
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.diag([1, -1])
    np.testing.assert_allclose(align_map(points @ turn, points), points, atol=1e-9)
