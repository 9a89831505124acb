"""Cloud sizes, shot groups and remarks, against a naive oracle and the published counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailcloud
from helpers.oracles import clouds
from tailcloud.errors import TailcloudWarning, UsageError
from tailcloud.profile import Profile, cloud_sizes, fingerprint, shot_groups, tail_group, worst_tail

STRATEGIES = ["log", "cos", "pow3", "pow4"]
COUNTS = st.lists(st.integers(1, 10_000_000), min_size=1, max_size=50)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(counts=COUNTS)
def test_cloud_sizes_match_the_oracle(strategy, counts):
    np.testing.assert_allclose(cloud_sizes(counts, strategy), clouds.cloud_sizes(counts, strategy), atol=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(counts=COUNTS)
def test_the_head_has_no_cloud_and_the_rarest_class_the_largest(strategy, counts):
    sizes = cloud_sizes(counts, strategy)
    assert sizes[int(np.argmax(counts))] == 0
    assert np.isfinite(sizes).all()
    if len(set(counts)) > 1:
        assert sizes[int(np.argmin(counts))] == sizes.max() == 1
    order = np.argsort(counts)
    assert (np.diff(sizes[order]) <= 1e-12).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("counts", [[7], [7, 7, 7], [1, 1]])
def test_balanced_counts_have_no_cloud(strategy, counts):
    assert cloud_sizes(counts, strategy).tolist() == [0.0] * len(counts)


def test_an_absent_class_counts_as_one_image_and_is_warned_about():
    with pytest.warns(TailcloudWarning, match="class 2 without a training image"):
        sizes = cloud_sizes([100, 10, 0])
    np.testing.assert_allclose(sizes, clouds.cloud_sizes([100, 10, 1], "log"))


def test_a_class_of_one_image():
    assert tailcloud.cloud_sizes([100, 1]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([], "non-empty"),
        ([[1, 2]], "non-empty"),
        ([3, -1], "class 1 has -1"),
        ([0, 0], "every class count is 0"),
        ([1.5, 2], "whole numbers"),
    ],
)
def test_impossible_counts_are_refused(counts, sentence):
    with pytest.raises(UsageError, match=sentence):
        cloud_sizes(counts)


def test_an_unknown_strategy_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match='did you mean "pow4"'):
        cloud_sizes([1, 2], "pow5")


def test_shot_groups_have_the_fields_borders():
    groups = shot_groups([101, 100, 20, 19, 0])
    assert {name: members.tolist() for name, members in groups.items()} == {
        "many": [0],
        "medium": [1, 2],
        "few": [3, 4],
    }


def test_remarks_name_what_is_unusual():
    remarks = " ".join(Profile(np.array([9, 1, 0]), ["ant", "bee", "cat"]).remarks())
    assert "class cat: no training image" in remarks
    assert "class bee: a single training image" in remarks
    assert Profile(np.array([9, 5]), ["ant", "bee"]).remarks() == []
    assert "no tail" in Profile(np.array([5, 5]), ["ant", "bee"]).remarks()[0]
    (alone,) = Profile(np.array([5]), ["ant"]).remarks()
    assert "only one class" in alone


def test_the_imbalance_ratio_is_that_of_the_classes_that_are_present():
    assert Profile(np.array([10, 0, 4]), ["ant", "bee", "cat"]).ratio == 2.5


def test_fingerprints_see_contents_shapes_and_types():
    a = np.arange(6)
    different = [a, a.reshape(2, 3), a.astype(np.int32), a + 1, a.view(np.float64)]
    assert len({fingerprint(x) for x in different}) == 5
    table = a.reshape(2, 3)
    assert fingerprint(table) == fingerprint(table.copy()) == fingerprint(np.asfortranarray(table))


def test_fingerprints_stay_what_runs_have_recorded():
    assert fingerprint(np.arange(3, dtype="<i8"), np.zeros((2, 1), np.uint8)) == "5d8da67a27f382b5"


CLASSES = st.tuples(st.sampled_from([1, 5, 19, 20, 100, 101, 500]), st.sampled_from([None, 0.0, 12.5, 99.9, 100.0]))


@given(st.lists(CLASSES, min_size=1, max_size=30), st.integers(1, 10))
def test_the_worst_tail_classes_against_a_plain_search(classes, limit):
    """Take the worst one that is left, again and again."""
    counts, accuracies = (list(column) for column in zip(*classes, strict=True))
    group = "few" if min(counts) < 20 else "medium" if min(counts) <= 100 else "many"
    assert tail_group(counts) == group
    left = [c for c in shot_groups(counts)[group].tolist() if accuracies[c] is not None and accuracies[c] < 100]
    expected = []
    while left and len(expected) < limit:
        worst = left[0]
        for c in left[1:]:
            if accuracies[c] < accuracies[worst] or (accuracies[c] == accuracies[worst] and counts[c] < counts[worst]):
                worst = c
        expected.append(worst)
        left.remove(worst)
    assert worst_tail(counts, accuracies, limit) == expected
