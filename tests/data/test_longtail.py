"""The long-tailed subsets of CIFAR: every published count, and the very images that the field picks."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.longtail import exponential_counts, longtail_positions
from tailcloud.errors import UsageError
from tailcloud.profile import shot_groups

# (classes, γ): total, many/medium/few, counts, SHA-256 of the positions within each class as little-endian int64
SUBSETS = {
    (10, 10): (
        20_431,
        (10, 0, 0),
        """
        5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500
        """,
        "2b3a8656bec514c6",
    ),
    (10, 50): (
        13_996,
        (9, 1, 0),
        """
        5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100
        """,
        "7bb90363b243a944",
    ),
    (10, 100): (
        12_406,
        (8, 2, 0),
        """
        5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50
        """,
        "8a54f5b6fa972295",
    ),
    (10, 200): (
        11_203,
        (7, 3, 0),
        """
        5000, 2775, 1540, 854, 474, 263, 146, 81, 45, 25
        """,
        "334c2d61143b39bf",
    ),
    (100, 10): (
        19_573,
        (69, 31, 0),
        """
        500, 488, 477, 466, 455, 445, 434, 424, 415, 405, 396, 387, 378, 369, 361, 352, 344, 336, 328,
        321, 314, 306, 299, 292, 286, 279, 273, 266, 260, 254, 248, 243, 237, 232, 226, 221, 216, 211,
        206, 201, 197, 192, 188, 183, 179, 175, 171, 167, 163, 159, 156, 152, 149, 145, 142, 139, 135,
        132, 129, 126, 123, 121, 118, 115, 112, 110, 107, 105, 102, 100, 98, 95, 93, 91, 89, 87, 85, 83,
        81, 79, 77, 75, 74, 72, 70, 69, 67, 66, 64, 63, 61, 60, 58, 57, 56, 54, 53, 52, 51, 50
        """,
        "5906ba7310b91b5e",
    ),
    (100, 50): (
        12_608,
        (41, 41, 18),
        """
        500, 480, 462, 444, 426, 410, 394, 379, 364, 350, 336, 323, 311, 299, 287, 276, 265, 255, 245,
        235, 226, 218, 209, 201, 193, 186, 178, 172, 165, 158, 152, 146, 141, 135, 130, 125, 120, 115,
        111, 107, 102, 98, 95, 91, 87, 84, 81, 78, 75, 72, 69, 66, 64, 61, 59, 56, 54, 52, 50, 48, 46,
        44, 43, 41, 39, 38, 36, 35, 34, 32, 31, 30, 29, 27, 26, 25, 24, 23, 22, 22, 21, 20, 19, 18, 18,
        17, 16, 16, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 10
        """,
        "1bc82de2629e5cbd",
    ),
    (100, 100): (
        10_847,
        (35, 35, 30),
        """
        500, 477, 455, 434, 415, 396, 378, 361, 344, 328, 314, 299, 286, 273, 260, 248, 237, 226, 216,
        206, 197, 188, 179, 171, 163, 156, 149, 142, 135, 129, 123, 118, 112, 107, 102, 98, 93, 89, 85,
        81, 77, 74, 70, 67, 64, 61, 58, 56, 53, 51, 48, 46, 44, 42, 40, 38, 36, 35, 33, 32, 30, 29, 27,
        26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 15, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8,
        8, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5
        """,
        "f123ec136d44ab1b",
    ),
    (100, 200): (
        9_502,
        (30, 31, 39),
        """
        500, 473, 449, 425, 403, 382, 362, 343, 325, 308, 292, 277, 263, 249, 236, 224, 212, 201, 190,
        180, 171, 162, 154, 146, 138, 131, 124, 117, 111, 105, 100, 95, 90, 85, 81, 76, 72, 69, 65, 62,
        58, 55, 52, 50, 47, 44, 42, 40, 38, 36, 34, 32, 30, 29, 27, 26, 24, 23, 22, 21, 20, 19, 18, 17,
        16, 15, 14, 13, 13, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3,
        3, 3, 3, 2, 2, 2, 2
        """,
        "36f76462dfbbe6f4",
    ),
}

FIRST_PICKS = {
    (10, 0): [398, 3833, 4836, 4572, 636],
    (10, 1): [597, 332, 521, 3935, 4800],
    (10, 9): [2204, 3816],
    (100, 0): [90, 254, 283, 445, 461],
    (100, 1): [277, 307, 436, 88, 261],
    (100, 99): [348, 153],
}


def sorted_labels(classes: int) -> np.ndarray:
    """50,000 labels, class by class, so that a position modulo the class size is the position within the class."""
    return np.repeat(np.arange(classes), 50_000 // classes)


def picks(classes: int, ratio: float) -> np.ndarray:
    counts = exponential_counts(50_000 / classes, classes, ratio)
    return longtail_positions(sorted_labels(classes), counts)


@pytest.mark.parametrize(("classes", "ratio"), SUBSETS)
def test_counts_totals_and_shot_groups_are_the_published_ones(classes, ratio):
    total, groups, counts, _ = SUBSETS[classes, ratio]
    found = exponential_counts(50_000 / classes, classes, ratio)
    assert found == [int(count) for count in counts.split(",")]
    assert sum(found) == total
    assert tuple(len(members) for members in shot_groups(found).values()) == groups


@pytest.mark.parametrize(("classes", "ratio"), SUBSETS)
def test_positions_are_those_the_field_picks(classes, ratio):
    within = picks(classes, ratio) % (50_000 // classes)
    assert sha256(within.astype("<i8").tobytes()).hexdigest()[:16] == SUBSETS[classes, ratio][3]


@pytest.mark.parametrize(("classes", "label"), FIRST_PICKS)
def test_first_picks_of_a_class(classes, label):
    positions = picks(classes, 200)
    size, expected = 50_000 // classes, FIRST_PICKS[classes, label]
    members = positions[sorted_labels(classes)[positions] == label]
    assert (members - label * size)[: len(expected)].tolist() == expected


def test_the_picks_do_not_depend_on_where_a_class_lies():
    labels = np.random.default_rng(1).permutation(sorted_labels(10))
    positions = longtail_positions(labels, exponential_counts(5000.0, 10, 100))
    within = np.concatenate([np.searchsorted(np.flatnonzero(labels == c), p) for c, p in by_class(labels, positions)])
    assert sha256(within.astype("<i8").tobytes()).hexdigest()[:16] == SUBSETS[10, 100][3]


def by_class(labels: np.ndarray, positions: np.ndarray) -> list[tuple[int, np.ndarray]]:
    return [(c, positions[labels[positions] == c]) for c in range(10)]


@pytest.mark.parametrize(
    ("n_max", "classes", "ratio", "last"), [(5000, 10, 200, 25), (500, 100, 10, 50), (500, 100, 50, 10)]
)
def test_the_float_trap(n_max, classes, ratio, last):
    """μ = γ^(−1/(C−1)) first and μ^j then loses an image of the last class."""
    trapped = int(n_max * ((1 / ratio) ** (1 / (classes - 1))) ** (classes - 1))
    assert trapped == last - 1
    assert exponential_counts(n_max, classes, ratio)[-1] == last


def test_one_class_and_ratio_one():
    assert exponential_counts(7, 1, 3) == [7]
    assert exponential_counts(7, 3, 1) == [7, 7, 7]


def test_the_last_class_has_an_image_where_the_product_rounds_to_just_under_one():
    assert int(49 * (1 / 49)) == 0
    assert exponential_counts(49, 2, 49) == [49, 1]


def test_another_seed_picks_other_images():
    first, second = (longtail_positions(np.zeros(1000, int), [500], seed) for seed in (0, 1))
    assert 200 < len(set(first) & set(second)) < 300


@pytest.mark.parametrize("ratio", [0.5, 0, -1, 121, float("nan"), float("inf")])
def test_an_impossible_ratio_is_refused(ratio):
    with pytest.raises(UsageError, match="must lie between 1 and 120"):
        exponential_counts(120, 10, ratio)


def test_more_images_than_a_class_has():
    with pytest.raises(UsageError, match="class 1 has 1 images, fewer than the 2 that are needed"):
        longtail_positions(np.array([0, 0, 1]), [2, 2])


@given(n_max=st.integers(2, 10_000), classes=st.integers(2, 200), share=st.floats(0, 1))
def test_counts_fall_from_n_max(n_max, classes, share):
    ratio = n_max**share
    counts = exponential_counts(n_max, classes, min(ratio, n_max))
    assert counts[0] == n_max
    assert counts == sorted(counts, reverse=True)
    assert abs(counts[-1] - n_max / ratio) <= 1


@given(
    labels=st.lists(st.integers(0, 4), min_size=40, max_size=120),
    ratios=st.tuples(st.floats(1, 4), st.floats(1, 4)).map(sorted),
    seed=st.integers(0, 5),
)
def test_a_larger_ratio_keeps_a_prefix_of_each_class(labels, ratios, seed):
    balanced = np.array(labels + [0, 1, 2, 3, 4] * 4)
    small, large = (longtail_positions(balanced, exponential_counts(4, 5, ratio), seed) for ratio in ratios)
    assert len(set(small.tolist())) == len(small)
    for label in range(5):
        kept, fewer = small[balanced[small] == label], large[balanced[large] == label]
        assert kept[: len(fewer)].tolist() == fewer.tolist()
