"""The losses of the compared methods against naive float64 oracles, and what sets each apart."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import losses as oracles
from tailcloud.data.loaders.batch import Batch
from tailcloud.losses import (
    LOSSES,
    BalancedSoftmaxLoss,
    CrossEntropyLoss,
    EqualizationLoss,
    FocalLoss,
    LADELoss,
    LDAMLoss,
    LogitAdjustmentLoss,
    VectorScalingLoss,
)
from tailcloud.losses.class_weights import class_weights
from tailcloud.losses.ldam import margins
from tailcloud.objectives import Classify

COUNTS = [500, 120, 30, 5, 1]
ORACLES = {
    "ce": oracles.ce,
    "focal": oracles.focal,
    "ldam": oracles.ldam,
    "logit-adjust": oracles.logit_adjust,
    "balanced-softmax": oracles.balanced_softmax,
    "vs": oracles.vs,
    "eql": oracles.eql,
    "lade": oracles.lade,
    "label-aware-smoothing": oracles.label_aware_smoothing,
}
WEIGHTED = [{"weights": w, "beta": b} for w, b in (("none", 0.9), ("inverse", 0.9), ("effective", 0.99))]
WEIGHTED += [{"weights": "inverse", "power": p} for p in (0.0, 1.2)]
OPTIONS = {
    "ce": [{}, {"smoothing": 0.1}, {"smoothing": 1.0}, {"smoothing": 0.3, "weights": "inverse"}, *WEIGHTED],
    "focal": [
        {},
        *({"form": form, "focal": focal} for form in ("softmax", "sigmoid") for focal in (0.0, 0.5, 2.0)),
        *({"form": form, **options} for form in ("softmax", "sigmoid") for options in WEIGHTED),
    ],
    "ldam": [{}, {"margin": 0.2}, *WEIGHTED],
    "logit-adjust": [{}, {"tau": 0.0}, {"tau": 1.5}, {"smoothing": 0.1}, {"tau": 0.5, "smoothing": 1.0}],
    "balanced-softmax": [{}],
    "vs": [{}, {"gamma": 0.0}, {"gamma": 0.3, "tau": 0.0}, {"tau": 1.5, "smoothing": 0.2}],
    "eql": [{}, {"threshold": 0.1}, {"threshold": 1.0, "probability": 0.5}, {"probability": 0.0}],
    "lade": [{}, {"alpha": 0.0}, {"alpha": 2.0, "lam": 0.5}],
    "label-aware-smoothing": [
        {},
        *({"form": form, "smooth_head": 0.4, "smooth_tail": 0.1} for form in ("concave", "linear", "convex")),
    ],
}
CASES = [pytest.param(name, options, id=f"{name}-{options}") for name, all_ in OPTIONS.items() for options in all_]


def random_batch(seed, rows=7, classes=5):
    generator = torch.Generator().manual_seed(seed)
    output = torch.rand(rows, classes, generator=generator, dtype=torch.float64) * 2 - 1
    target = torch.randint(classes, (rows,), generator=generator)
    return output, target, generator


def test_every_loss_has_an_oracle():
    assert {*ORACLES, "gcl", "gcl-angular"} == {*LOSSES}  # these two in tests of their own


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(1, 40))
def test_matches_the_oracle(name, options, seed, scale):
    output, target, generator = random_batch(seed)
    loss = LOSSES[name](COUNTS, scale=scale, **options)
    epsilon = loss.draw(len(target), torch.device("cpu"), generator)
    more = () if epsilon is None else (epsilon.tolist(),)
    expected = ORACLES[name](output.tolist(), target.tolist(), COUNTS, *more, scale=scale, **options)
    assert loss(output, target, epsilon=epsilon).item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradients_match_finite_differences(name, options):
    output, target, generator = random_batch(3)
    loss = LOSSES[name](COUNTS, scale=4.0, **options)
    epsilon = loss.draw(len(target), torch.device("cpu"), generator)
    assert torch.autograd.gradcheck(lambda z: loss(z, target, epsilon=epsilon), output.requires_grad_())


@pytest.mark.parametrize("weights", ["inverse", "effective"])
def test_class_weights_sum_to_the_classes_and_favour_the_rare(weights):
    made = class_weights(COUNTS, weights)
    assert made.sum() == pytest.approx(len(COUNTS))
    assert (made[1:] > made[:-1]).all()
    assert made.tolist() == pytest.approx(oracles.class_weights(COUNTS, weights, 0.9999))
    assert class_weights([7, 7, 7], weights).tolist() == pytest.approx([1, 1, 1])
    assert class_weights([1], weights).tolist() == [1]
    assert class_weights([9, 0, 1], "inverse").tolist() == pytest.approx([0.2, 0, 1.8])


@pytest.mark.parametrize("kind", [CrossEntropyLoss, FocalLoss, LDAMLoss])
def test_deferred_weights_start_in_place_when_their_share_is_done(kind):
    output, target, _ = random_batch(4)
    plain, weighted, deferred = (
        kind(COUNTS, **options) for options in ({}, {"weights": "inverse"}, {"weights": "inverse", "defer": 0.8})
    )
    place = deferred.weights.now.data_ptr()
    values = []
    for share in (0.0, 0.795, 0.8, 0.995, 0.3):
        deferred.advance(share)
        values.append(deferred(output, target))
    before, after = plain(output, target), weighted(output, target)
    torch.testing.assert_close(values, [before, before, after, after, before])
    assert deferred.weights.now.data_ptr() == place
    assert not torch.isclose(before, after)


def test_a_milestone_and_the_deferred_weights_meet():
    loss = LDAMLoss(COUNTS, weights="effective", defer=0.8)
    for epochs, first in ((200, 160), (60, 48), (10, 8), (5, 4)):
        started = []
        for epoch in range(epochs):
            loss.advance(epoch / epochs)
            started.append(not bool((loss.weights.now == 1).all()))
        assert started.index(True) == first


def test_a_batch_whose_classes_weigh_nothing_costs_nothing():
    loss = CrossEntropyLoss([5, 0], weights="inverse")
    assert loss(torch.zeros(2, 2), torch.tensor([1, 1])) == 0


def test_pytorchs_own_weighted_mean_is_the_same():
    output, target, _ = random_batch(5)
    weight = torch.from_numpy(class_weights(COUNTS, "effective"))
    expected = torch.nn.functional.cross_entropy(output, target, weight=weight)
    torch.testing.assert_close(CrossEntropyLoss(COUNTS, weights="effective")(output, target), expected)


def test_ldams_margins():
    widths = margins([10_000, 16, 1])
    assert widths.tolist() == pytest.approx([0.05, 0.25, 0.5])
    assert margins([8, 8], 0.3).tolist() == [0.3, 0.3]


@pytest.mark.parametrize("form", ["softmax", "sigmoid"])
@pytest.mark.parametrize("focal", [0.0, 0.5, 1.0, 2.0])
def test_a_certain_focal_loss_is_zero_and_has_no_infinite_slope(form, focal):
    output = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    value = FocalLoss(form=form, focal=focal)(output, torch.tensor([0, 1]))
    value.backward()
    assert value == 0
    assert torch.isfinite(output.grad).all()


def test_balanced_softmax_is_logit_adjustment_with_tau_one_and_plain_for_balanced_classes():
    output, target, _ = random_batch(6)
    assert torch.equal(BalancedSoftmaxLoss(COUNTS)(output, target), LogitAdjustmentLoss(COUNTS)(output, target))
    torch.testing.assert_close(
        BalancedSoftmaxLoss([3] * 5)(output, target), torch.nn.functional.cross_entropy(output, target)
    )


def test_vector_scaling_without_an_exponent_or_with_balanced_classes_is_logit_adjustment():
    output, target, _ = random_batch(6)
    assert torch.equal(
        VectorScalingLoss(COUNTS, gamma=0.0)(output, target), LogitAdjustmentLoss(COUNTS)(output, target)
    )
    torch.testing.assert_close(
        VectorScalingLoss([3] * 5, gamma=0.5)(output, target), torch.nn.functional.cross_entropy(output, target)
    )


def test_vector_scaling_predicts_with_clean_logits():
    output = torch.rand(3, 5)
    assert torch.equal(VectorScalingLoss(COUNTS, scale=2.0).logits(output), 2 * output)


@pytest.mark.parametrize("kind", [CrossEntropyLoss, LogitAdjustmentLoss, VectorScalingLoss])
def test_smoothed_and_mixed_labels_are_one_soft_label(kind):
    """λ·L(z, y_a) + (1 − λ)·L(z, y_b) is the cross-entropy with (1 − ε)·(λ·[j = y_a] + (1 − λ)·[j = y_b]) + ε / C."""
    output, target, _ = random_batch(7)
    loss, lam = kind(COUNTS, smoothing=0.2), torch.tensor(0.3, dtype=torch.float64)
    batch = Batch(output, target, target.flip(0), lam)
    logits = loss.adjust(output.clone()) if isinstance(loss, LogitAdjustmentLoss) else output
    hot, other = (torch.nn.functional.one_hot(labels, 5).double() for labels in (target, target.flip(0)))
    soft = 0.8 * (lam * hot + (1 - lam) * other) + 0.2 / 5
    expected = -(soft * logits.log_softmax(dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(Classify(loss)(lambda images: images, batch, (None, None)), expected)


def test_other_classes_leave_rare_ones_alone():
    loss = EqualizationLoss([9990, 5, 5], probability=1.0)
    output = torch.randn(3, 3, requires_grad=True)
    loss(output, torch.tensor([0, 1, 2])).backward()
    assert output.grad[0].tolist() == [0, 0, 0]  # of the frequent class itself nothing is left to compare with
    assert output.grad[1, 1] < 0 < output.grad[1, 0]
    assert output.grad[1, 2] == output.grad[2, 1] == 0


def test_the_equalizer_leaves_out_as_often_as_it_says():
    loss = EqualizationLoss([9990, 10], probability=0.7)
    drawn = loss.draw(20_000, torch.device("cpu"), torch.Generator().manual_seed(0))
    output = torch.zeros(20_000, 2)
    left_out = loss(output, torch.zeros(20_000, dtype=torch.long), epsilon=drawn) / torch.tensor(2.0).log()
    assert 1 - left_out.item() == pytest.approx(0.7, abs=0.02)


def test_lades_regulariser_holds_the_log_mean():
    """For balanced classes and equal logits M_c is that logit, and its square is held back."""
    loss = LADELoss([4, 4], alpha=1.0, lam=0.25)
    output, target = torch.full((6, 2), 2.0), torch.tensor([0, 1] * 3)
    assert loss.regulariser(output, target, loss.priors).item() == pytest.approx(0.25 * 2.0**2)


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("ce", {"weights": "square"}, "weights"),
        ("ce", {"weights": "effective", "beta": 1.5}, "beta"),
        ("ldam", {"weights": "inverse", "defer": -0.1}, "defer"),
        ("ldam", {"margin": -1.0}, "margin"),
        ("focal", {"focal": -1.0}, "focal"),
        ("focal", {"form": "both"}, "form"),
        ("logit-adjust", {"tau": -1.0}, "tau"),
        ("logit-adjust", {"smoothing": 1.1}, "smoothing"),
        ("ce", {"smoothing": -0.1}, "smoothing"),
        ("vs", {"gamma": -0.1}, "gamma"),
        ("vs", {"tau": -1.0}, "tau"),
        ("eql", {"threshold": 2.0}, "threshold"),
        ("eql", {"probability": -0.5}, "probability"),
        ("ce", {"weights": "inverse", "power": -1.0}, "power"),
        ("label-aware-smoothing", {"smooth_head": 1.5}, "smooth_head"),
        ("label-aware-smoothing", {"smooth_tail": -0.1}, "smooth_tail"),
        ("label-aware-smoothing", {"form": "round"}, "form"),
        ("lade", {"alpha": -1.0}, "alpha"),
        ("lade", {"lam": float("inf")}, "lam"),
    ],
)
def test_impossible_options_are_refused(name, options, named):
    with pytest.raises(ValueError, match=named):
        LOSSES[name](COUNTS, **options)


def test_weights_need_counts():
    with pytest.raises(ValueError, match="counts"):
        CrossEntropyLoss(weights="inverse")
