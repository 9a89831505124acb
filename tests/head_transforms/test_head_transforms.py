"""Each head transform against naive loops and at the edges."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import heads as oracles
from tailcloud.errors import TailcloudWarning, UsageError
from tailcloud.head_transforms import HEAD_TRANSFORMS, TrainedModelView
from tailcloud.heads import HEADS
from tailcloud.recipe import resolve

FEATURES, COUNTS = 6, [50, 20, 5, 1]
BALANCED = [7, 7, 7, 7]
SUPPORTED = {
    "keep": {*HEADS},
    "fresh": {*HEADS},
    "nearest-mean": {*HEADS},
    "unit": {"cosine"},
    "lws": {"linear", "cosine"},
    "tau-norm": {"linear", "cosine"},
    "logit-adjust": {"linear", "cosine", "scaled-linear", "scaled-cosine"},
    "tuned-logit-adjust": {"linear", "cosine", "scaled-linear", "scaled-cosine"},
    "disalign": {"linear", "cosine"},
    "tde": {"causal"},
}


def trained_head(name, seed=0, classes=4):
    """A head with random numbers everywhere, and features for it."""
    generator = torch.Generator().manual_seed(seed)
    head = HEADS[name](FEATURES, classes).double().eval()
    for value in head.state_dict().values():
        value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return head, torch.randn(5, FEATURES, generator=generator, dtype=torch.float64)


def labelled(seed=1, rows=20, labels=(0, 1, 2, 3)):
    features = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return features, torch.tensor([labels[i % len(labels)] for i in range(rows)])


@torch.no_grad()
def changed(old, before, name, counts=COUNTS, scale=1.0, known=None, **options):
    change = HEAD_TRANSFORMS[name](counts, **options)
    new = HEADS[change.head_after(before)](FEATURES, len(counts)).double().eval()
    change.apply(old, new, TrainedModelView(scale, lambda: known or labelled()))
    return new


def assert_close(outputs, expected):
    torch.testing.assert_close(outputs, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("before", HEADS)
@pytest.mark.parametrize("name", SUPPORTED)
def test_a_head_is_changed_or_refused_by_a_sentence(name, before):
    change = HEAD_TRANSFORMS[name](COUNTS)
    if before in SUPPORTED[name]:
        assert change.head_after(before) in HEADS
    else:
        with pytest.raises(ValueError, match=f'"{name}" cannot change a {before} head; the stage before must leave'):
            change.head_after(before)


def test_a_recipe_with_a_change_that_is_not_possible_is_refused():
    with pytest.raises(UsageError, match=r'stage2\.head_transform: "tde" cannot change a linear head'):
        resolve({"method": "crt", "stage2": {"head_transform": "tde"}})


@pytest.mark.parametrize(("name", "before"), [(n, b) for n in ("lws", "unit", "keep") for b in sorted(SUPPORTED[n])])
def test_some_changes_leave_the_outputs_as_they_were(name, before):
    old, features = trained_head(before)
    torch.testing.assert_close(changed(old, before, name)(features), old(features))


def test_unit_anchors_have_length_one():
    old, _ = trained_head("cosine")
    lengths = changed(old, "cosine", "unit").weight.norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    assert not torch.allclose(old.weight.norm(dim=1), lengths)


@pytest.mark.parametrize("before", ["linear", "cosine"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tau=st.floats(0, 2))
def test_tau_normalisation_divides_by_a_power_of_the_length(before, seed, tau):
    old, features = trained_head(before, seed)
    expected = oracles.tau_normed(features.tolist(), old.weight.tolist(), tau, cosine_head=before == "cosine")
    assert_close(changed(old, before, "tau-norm", tau=tau)(features), expected)


def test_tau_one_is_nothing_new_for_cosines_and_a_weight_of_length_zero_stays_finite():
    old, features = trained_head("cosine")
    torch.testing.assert_close(changed(old, "cosine", "tau-norm")(features), old(features))
    for before in ("linear", "cosine"):
        old, features = trained_head(before)
        with torch.no_grad():
            old.weight[2] = 0
        assert (changed(old, before, "tau-norm", tau=1.5)(features)[:, 2] == 0).all()


@pytest.mark.parametrize("before", sorted(SUPPORTED["logit-adjust"]))
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tau=st.floats(0, 2), scale=st.floats(1, 30))
def test_logits_are_adjusted_by_the_log_of_the_prior(before, seed, tau, scale):
    old, features = trained_head(before, seed)
    logits = scale * changed(old, before, "logit-adjust", scale=scale, tau=tau)(features)
    for row, plain in zip(logits.tolist(), (scale * old(features)).tolist(), strict=True):
        expected = [z - tau * math.log(n / sum(COUNTS)) for z, n in zip(plain, COUNTS, strict=True)]
        assert row == pytest.approx(expected)


def test_balanced_counts_adjust_all_alike_and_an_absent_class_is_one_image():
    old, features = trained_head("linear")
    torch.testing.assert_close(
        changed(old, "linear", "logit-adjust", BALANCED)(features), old(features) + math.log(len(BALANCED))
    )
    with pytest.warns(TailcloudWarning, match="class 3"):
        absent = changed(old, "linear", "logit-adjust", [50, 20, 5, 0])
    assert torch.equal(absent.bias, changed(old, "linear", "logit-adjust", [50, 20, 5, 1]).bias)


@pytest.mark.parametrize("normalise", ["cl2n", "l2n", "un"])
@pytest.mark.parametrize("labels", [(0, 1, 2, 3), (0, 0, 1, 3)], ids=["every class", "an absent class"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_class_means_are_the_nearest(normalise, labels, seed):
    old, features = trained_head("linear", seed)
    known = labelled(seed + 1, labels=labels)
    kept = known[0].clone()
    outputs = changed(old, "linear", "nearest-mean", known=known, normalise=normalise)(features)
    trained, classes = (column.tolist() for column in known)
    assert_close(outputs, oracles.nearest_mean(features.tolist(), trained, classes, len(COUNTS), normalise))
    assert torch.equal(known[0], kept)


def test_one_class_is_nearest_of_all():
    old, features = trained_head("cosine", classes=1)
    head = changed(old, "cosine", "nearest-mean", [9], known=labelled(labels=(0,)))
    assert head(features).argmax(dim=1).tolist() == [0] * len(features)


@pytest.mark.parametrize("before", ["linear", "cosine"])
def test_an_alignment_starts_afresh_behind_the_trained_head(before):
    old, features = trained_head(before)
    head = changed(old, before, "disalign")
    assert torch.equal(head.inner(features), old(features))
    assert (head.align.alpha == 1).all()
    assert (head.align.beta == 0).all()


def test_the_effect_of_drift_is_taken_off():
    old, features = trained_head("causal")
    head = changed(old, "causal", "tde", alpha=1.5)
    expected = oracles.causal(features.tolist(), old.weight.tolist(), old.mean.tolist(), 1.5)
    assert_close(head(features), expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tau-norm", {"tau": -1.0}),
        ("logit-adjust", {"tau": -0.5}),
        ("tde", {"alpha": -1.0}),
        ("nearest-mean", {"normalise": "l3n"}),
    ],
)
def test_impossible_options_of_a_change_are_refused(name, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        HEAD_TRANSFORMS[name](COUNTS, **options)
