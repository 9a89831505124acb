import numpy as np
import pytest

from tailcloud.confidence_interval import beyond_chance, beyond_seeds, effective_images, wilson_interval


@pytest.mark.parametrize("percent", [0.0, 3.0, 60.0, 100.0])
@pytest.mark.parametrize("images", [4, 5, 312])  # of 5, rounding leaves the range
def test_the_interval_has_the_shares_that_the_measured_one_does_not_refute(percent, images):
    """Wilson's interval has every p with |p̂ − p| ≤ 1.96 · √(p (1 − p) / n)."""
    shares = np.linspace(0, 1, 100_001)
    kept = shares[np.abs(percent / 100 - shares) <= 1.96 * np.sqrt(shares * (1 - shares) / images)]
    assert wilson_interval(percent, images) == pytest.approx((100 * kept[0], 100 * kept[-1]), abs=0.01)
    assert 0 <= wilson_interval(percent, images).low < wilson_interval(percent, images).high <= 100


def test_a_mean_over_classes_varies_as_one_over_its_effective_images():
    counts, p = [3, 40, 8, 0], 0.3
    random = np.random.default_rng(0)
    means = np.mean([random.binomial(n, p, 200_000) / n for n in counts if n], axis=0)
    assert means.var() == pytest.approx(p * (1 - p) / effective_images(counts), rel=0.02)
    assert effective_images([50] * 10) == pytest.approx(500)
    assert effective_images([1, 1, 0]) == pytest.approx(2)
    assert effective_images([0, 0]) == 0


def test_two_accuracies_of_the_same_share_seldom_differ_beyond_chance():
    random = np.random.default_rng(1)
    pairs = 100 * random.binomial(200, 0.7, (4000, 2)) / 200
    share = np.mean([beyond_chance(first, second, 200) for first, second in pairs])
    assert 0.03 < share < 0.07
    assert beyond_chance(80.0, 60.0, 200)
    assert not beyond_chance(80.0, 79.0, 200)


@pytest.mark.parametrize(("seeds", "least"), [(2, 0.04), (3, 0.04), (5, 0.04), (11, 0.04), (40, 0.03)])
def test_seeds_without_a_difference_seldom_show_one(seeds, least):
    random = np.random.default_rng(2)
    drawn = random.normal(size=(4000, seeds))
    share = np.mean([beyond_seeds(one.mean(), one.std(ddof=1), seeds) for one in drawn])
    assert least < share < 0.06
