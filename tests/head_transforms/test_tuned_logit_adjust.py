"""The bias of a head, removed with held-out images: against a grid search, and what it must leave unchanged."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.oracles import calibration as oracle
from tailcloud.calibration.held_out import HeldOutOutputs
from tailcloud.head_transforms import HEAD_TRANSFORMS, TrainedModelView
from tailcloud.heads import HEADS

FEATURES, COUNTS = 6, [120, 40, 9, 2]
LOGS = [math.log(n) for n in COUNTS]
KINDS = ["linear", "cosine", "scaled-linear", "scaled-cosine"]


def trained_head(kind, seed=0):
    """A head with random numbers everywhere."""
    generator = torch.Generator().manual_seed(seed)
    head = HEADS[kind](FEATURES, len(COUNTS)).double().eval()
    for value in head.state_dict().values():
        value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return head


def seen(head, scale, bias, seed=0, images=150):
    """Features, classes that the head's logits give when they have less bias, and what the head itself says."""
    random, shift = np.random.default_rng(seed), np.array([0.3, -0.2, 0.5, 0.0])
    features = torch.from_numpy(random.standard_normal((images, FEATURES)))
    with torch.no_grad():
        outputs = head(features).numpy()
    scores = scale * outputs - bias * np.array(LOGS) + shift
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    target = np.array([random.choice(len(COUNTS), p=row / row.sum()) for row in weights])
    return features, HeldOutOutputs(outputs, target, shift)


@torch.no_grad()
def tuned(old, kind, scale, found, counts=COUNTS):
    """The new head, and its notes."""
    change, said = HEAD_TRANSFORMS["tuned-logit-adjust"](counts), []
    new = HEADS[change.head_after(kind)](FEATURES, len(counts)).double().eval()
    change.apply(
        old,
        new,
        TrainedModelView(scale, lambda: pytest.fail("no training image is needed"), lambda: found, said.append),
    )
    return new, said


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1.0, 4.0]), bias=st.sampled_from([-0.5, 0.0, 0.3, 0.8]))
def test_logits_get_what_a_grid_search_finds(kind, seed, scale, bias):
    old = trained_head(kind, seed)
    features, found = seen(old, scale, bias, seed)
    new, said = tuned(old, kind, scale, found)
    direction = [value - sum(LOGS) / len(LOGS) for value in LOGS]
    inverse, tau = oracle.best_bias((scale * found.outputs).tolist(), found.target, direction, found.shift)
    gain = oracle.gain_of_bias((scale * found.outputs).tolist(), found.target, direction, found.shift, inverse, tau)
    assume(abs(gain - 1.92) > 0.01)
    expected = scale * found.outputs + (tau / inverse if gain > 1.92 else 0) * np.array(direction)
    with torch.no_grad():
        np.testing.assert_allclose(scale * new(features).numpy(), expected, atol=0.05)
    assert ("fitted on 150 held-out images" in said[0]) == (gain > 1.92)


@pytest.mark.parametrize("bias", [-0.6, 0.6])
def test_a_head_with_a_bias_is_corrected_and_one_without_is_left(bias):
    old = trained_head("linear")
    features, found = seen(old, 1.0, bias, images=6000)
    new, said = tuned(old, "linear", 1.0, found)
    straight = found.outputs - bias * (np.array(LOGS) - np.mean(LOGS))
    with torch.no_grad():
        np.testing.assert_allclose(new(features).numpy(), straight, atol=0.3)
        again, _ = tuned(new, "linear", 1.0, HeldOutOutputs(new(features).numpy(), found.target, found.shift))
        np.testing.assert_allclose(again(features), new(features), atol=1e-4)
    assert ("rare" if bias > 0 else "frequent") in said[0]


def test_a_few_images_that_are_all_recognised_are_no_reason_to_favour_frequent_classes():
    old = trained_head("linear")
    target = np.array([0] * 20 + [1] * 7 + [2] * 2)
    found = HeldOutOutputs(4 * np.eye(4)[target] + 0.1, target, np.log(np.array([20, 7, 2, 0.5]) / 29.5) - np.log(0.25))
    new, said = tuned(old, "linear", 1.0, found)
    assert torch.equal(new.bias, old.bias)
    assert said == ["No significant bias on 29 held-out images; logits unchanged."]


@pytest.mark.parametrize("kind", KINDS)
def test_without_enough_images_it_changes_nothing_and_says_so(kind):
    old = trained_head(kind)
    features, _ = seen(old, 1.0, 0.5)
    new, said = tuned(old, kind, 30.0, None)
    assert torch.equal(new(features), old(features))
    assert said == ["Fewer than 20 held-out images; logits unchanged."]


def test_balanced_classes_and_outputs_that_are_no_numbers_change_nothing():
    old = trained_head("linear")
    features, found = seen(old, 1.0, 0.5)
    nowhere = HeldOutOutputs(np.full_like(found.outputs, np.nan), found.target, found.shift)
    for counts, images in (([7] * 4, found), (COUNTS, nowhere)):
        new, said = tuned(old, "linear", 1.0, images, counts)
        torch.testing.assert_close(new(features), old(features))
        assert said == ["No significant bias on 150 held-out images; logits unchanged."]


def test_the_mix_that_outputs_assume_stays_the_one_they_were_meant_to():
    before = np.array([0.4, 0.3, 0.2, 0.1])
    assert HEAD_TRANSFORMS["tuned-logit-adjust"](COUNTS).prior(before) is before
