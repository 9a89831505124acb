"""Other mixes of classes, against Bayes' rule and test parts that are counted image by image."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracles import calibration as oracle
from tailcloud.calibration import priors
from tailcloud.errors import UsageError

SHARES = st.lists(st.floats(0.01, 1), min_size=4, max_size=4)
COUNTS = st.lists(st.integers(0, 300), min_size=2, max_size=8).filter(any)


@given(SHARES, SHARES, SHARES)
def test_adjusted_logits_are_bayes_rule_with_the_other_prior(likelihoods, assumed, target):
    assumed, target = priors.normalised(assumed), priors.normalised(target)
    logits = np.log(likelihoods) + np.log(assumed) + 7
    adjusted = np.exp(logits + priors.adjustment(target, assumed))
    np.testing.assert_allclose(adjusted / adjusted.sum(), oracle.posterior(likelihoods, target), rtol=1e-9)


def test_a_class_that_does_not_occur_is_never_predicted():
    shift = priors.adjustment(priors.normalised([1, 0]), priors.uniform_prior(2))
    assert shift.tolist() == [pytest.approx(np.log(2)), -np.inf]


@given(COUNTS)
def test_the_three_mixes(counts):
    found = priors.evaluation_priors(counts)
    assert list(found) == list(priors.EVALUATION_PRIORS)
    for mix in found.values():
        assert mix.sum() == pytest.approx(1)
    np.testing.assert_allclose(found["backward"], oracle.backward(counts))
    np.testing.assert_allclose(found["forward"], priors.train_prior(counts))
    order = np.argsort(counts)
    assert (np.diff(found["backward"][order]) <= 1e-12).all()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30),
    st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any),
)
def test_accuracy_under_a_mix_counts_every_image_as_often_as_its_class_comes(data, images):
    target, predicted = map(list, zip(*data, strict=True))
    hits = [[said == y for y, said in data if y == c] for c in range(3)]
    per_class = [100 * sum(found) / len(found) if found else None for found in hits]
    expected = oracle.accuracy_under_prior(target, predicted, images)
    assert priors.accuracy_under(per_class, priors.normalised(images)) == (
        None if expected is None else pytest.approx(expected)
    )


@pytest.mark.parametrize("shares", [[0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0], [1e308, 1e308], [[0.5], [0.5]]])
def test_what_is_no_mix_is_refused(shares):
    with pytest.raises(UsageError, match="one share per class"):
        priors.normalised(shares)


def test_mixes_have_names():
    counts = [90, 10]
    assert priors.prior_name(np.array([0.9, 0.1]), counts) == "train"
    assert priors.prior_name(np.array([0.52, 0.48]), counts) == "uniform"
    assert priors.prior_name(np.array([0.1, 0.9]), counts) == "other"
