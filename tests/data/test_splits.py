"""What is set aside: how much of each class, and groups in one piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data import Dataset, Split, hold_out
from tailcloud.data.splits import limit_remark, limited_positions, set_aside


def counts_aside(labels, share, smallest=2, groups=None):
    labels = np.array(labels)
    aside = set_aside(labels, int(labels.max()) + 1, share, smallest, None if groups is None else np.array(groups))
    return np.bincount(labels[aside], minlength=int(labels.max()) + 1).tolist()


def test_each_class_gives_its_share_and_at_least_one():
    assert counts_aside([0] * 50 + [1] * 7 + [2] * 2 + [3], 0.2) == [10, 1, 1, 0]
    assert counts_aside([0] * 7, 0.25) == [2]


def test_a_class_keeps_one_image_whatever_the_share():
    assert counts_aside([0] * 2 + [1] * 10, 0.99) == [1, 9]


def test_classes_below_the_smallest_give_none():
    assert counts_aside([0] * 3 + [1] * 4, 0.5, smallest=4) == [0, 2]


def test_groups_stay_whole_and_near_to_the_share():
    labels, groups = [0] * 40 + [1] * 20, [i // 4 for i in range(40)] + [100 + i // 2 for i in range(20)]
    aside = set_aside(np.array(labels), 2, 0.2, 2, np.array(groups))
    assert counts_aside(labels, 0.2, groups=groups) == [8, 4]
    assert not set(np.array(groups)[aside]) & set(np.array(groups)[~aside])


def test_no_group_is_taken_that_brings_a_class_no_nearer_to_its_share():
    assert counts_aside([0] * 30, 0.1, groups=[i // 2 for i in range(30)]) == [2]  # of 3 that are wanted


def test_groups_of_two_classes_count_for_both():
    """Ten groups of one image of class 0 and three of class 1, and thirty images of class 1 alone."""
    labels, groups = [0, 1, 1, 1] * 10 + [1] * 30, [i // 4 for i in range(40)] + list(range(10, 40))
    given_away = counts_aside(labels, 0.2, groups=groups)
    assert given_away[0] >= 2
    assert given_away[1] == 12


def test_groups_are_drawn_and_not_the_first_ones():
    aside = np.flatnonzero(set_aside(np.zeros(100, int), 1, 0.2, 2, np.arange(100)))
    assert len(aside) == 20
    assert 30 < aside.mean() < 70


def test_a_limit_keeps_some_of_a_large_class_and_all_of_a_small_one():
    labels = np.array([0, 1] * 20 + [0] * 160)
    few, more = (limited_positions(labels, 3, most) for most in (30, 50))
    assert np.bincount(labels[few]).tolist() == [30, 20]
    assert np.array_equal(few, np.unique(few))
    assert set(few) < set(more)
    assert labels[few[few >= 40]].size > 15  # not the first ones


def test_the_remark_on_a_limit_counts_what_is_left_out():
    (remark,) = limit_remark(np.array([180, 50, 31, 30, 2]), 30)
    assert remark.startswith("3\u00a0classes with more than 30 training images: 171 of them are left out")
    assert limit_remark(np.array([30, 2]), 30) == []


def test_a_class_in_a_single_group_gives_none():
    assert counts_aside([0] * 10 + [1] * 6, 0.2, groups=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4] + [9] * 6) == [2, 0]


def test_large_groups_give_the_smallest_of_them():
    assert counts_aside([0] * 20, 0.1, groups=[0] * 11 + [1] * 9) == [9]


def test_a_group_over_several_classes_never_takes_the_last_image_of_one():
    labels, groups = [0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 0]
    assert counts_aside(labels, 0.25, groups=groups) == [1, 0]


@st.composite
def grouped(draw):
    size = draw(st.integers(1, 60))
    numbers = st.lists(st.integers(0, 5), min_size=size, max_size=size)
    return np.array(draw(numbers)), np.array(draw(st.lists(st.integers(0, 12), min_size=size, max_size=size)))


@given(grouped(), st.floats(0.05, 0.9), st.sampled_from([2, 4]))
def test_no_group_straddles_and_no_class_loses_its_last_image(data, share, smallest):
    labels, groups = data
    aside = set_aside(labels, 6, share, smallest, groups)
    assert not set(groups[aside]) & set(groups[~aside])
    counts, given_away = (np.bincount(labels[rows], minlength=6) for rows in (slice(None), aside))
    assert (given_away[counts < smallest] == 0).all()
    assert ((counts == 0) | (given_away < counts)).all()
    assert np.array_equal(aside, set_aside(labels, 6, share, smallest, groups))


@given(grouped(), st.floats(0.05, 0.5))
def test_groups_of_one_image_give_the_plain_counts(data, share):
    labels, _ = data
    own = set_aside(labels, 6, share, 4, np.arange(len(labels)))
    plain = set_aside(labels, 6, share, 4)
    assert np.array_equal(np.bincount(labels[own], minlength=6), np.bincount(labels[plain], minlength=6))


def toy(**options):
    labels = np.repeat(np.arange(2), 12)
    images = np.arange(24, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 1), np.uint8)
    train = Split(images, labels, groups=np.arange(24) // 3, names=np.array([f"{i}.png" for i in range(24)], object))
    return Dataset("toy", train, Split(images[:2], labels[[0, 12]]), ["a", "b"], [0.5], [0.5], **options)


def test_held_out_images_take_their_groups_along():
    held = hold_out(toy(), 0.25)
    assert (len(held.train), len(held.val)) == (18, 6)
    assert not set(held.train.groups) & set(held.val.groups)
    assert held.val.names.tolist() == [f"{i}.png" for i in held.val.images[:, 0, 0, 0]]


def test_data_with_a_validation_part_of_their_own_keep_it():
    data = toy(val=toy().test)
    assert hold_out(data, 0.25) is data


def test_classes_in_one_group_are_named():
    data = toy()
    single = Dataset(
        "toy", Split(data.train.images, data.train.labels, data.train.labels), data.test, ["a", "b"], [0], [1]
    )
    assert hold_out(single, 0.25).remarks == ("classes a, b: too few images or groups to hold any out for validation.",)


@pytest.mark.slow
def test_a_hundred_thousand_groups_take_seconds():
    random = np.random.RandomState(1)
    labels, groups = random.randint(0, 1000, 300_000), random.randint(0, 100_000, 300_000)
    aside = set_aside(labels, 1000, 0.2, 2, groups)
    assert 0.15 < aside.mean() < 0.25
