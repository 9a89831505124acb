"""Noise on the feature: against a naive float64 computation, on plain and mixed batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from tailcloud.data.loaders.batch import Batch
from tailcloud.errors import TailcloudWarning
from tailcloud.heads import LinearHead
from tailcloud.losses import CrossEntropyLoss
from tailcloud.objectives import FeatureNoise

COUNTS, FEATURES = [90, 20, 6, 1], 5


def network():
    return Flat(LinearHead(FEATURES, len(COUNTS)).double())


def naive(head, batch, target, noise, strength):
    logits = head(batch.images).tolist()
    return oracle.feature_noise(logits, target.tolist(), noise.tolist(), head.weight.tolist(), COUNTS, strength)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), strength=st.floats(0, 2), lam=st.floats(0, 1), rows=st.integers(1, 6))
def test_both_terms_match_the_oracle_with_clouds_of_their_own(seed, strength, lam, rows):
    generator, model = torch.Generator().manual_seed(seed), network()
    images = torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64)
    target, other = (torch.randint(len(COUNTS), (rows,), generator=generator) for _ in range(2))
    batch = Batch(images, target, other, torch.tensor(lam, dtype=torch.float64))
    objective = FeatureNoise(CrossEntropyLoss(), COUNTS, FEATURES, strength=strength)
    noise = objective.draw(batch, generator)
    (first, _), (second, _) = noise
    assert not torch.equal(first, second)
    mixed = objective(model, batch, noise)
    ours, theirs = naive(model.head, batch, target, first, strength), naive(model.head, batch, other, second, strength)
    assert mixed.item() == pytest.approx(lam * ours + (1 - lam) * theirs, rel=1e-6)
    plain = Batch(images, target)
    assert objective(model, plain, noise).item() == pytest.approx(ours, rel=1e-6)
    assert len(objective.draw(plain, generator)) == 1


def test_gradients_reach_features_and_weights_through_the_cloud():
    model, target = network(), torch.tensor([3, 3])
    images = torch.randn(2, FEATURES, dtype=torch.float64, requires_grad=True)
    objective = FeatureNoise(CrossEntropyLoss(), COUNTS, FEATURES).double()
    noise = [(torch.randn(2, FEATURES, dtype=torch.float64), None)]
    inputs = images, model.head.weight
    assert torch.autograd.gradcheck(lambda *_: objective(model, Batch(images, target), noise), inputs)


def test_balanced_classes_have_no_cloud_and_an_absent_one_is_a_class_of_one_image():
    assert (FeatureNoise(CrossEntropyLoss(), [4, 4, 4], FEATURES).sizes == 0).all()
    with pytest.warns(TailcloudWarning):
        absent = FeatureNoise(CrossEntropyLoss(), [50, 10, 0], FEATURES)
    assert torch.equal(absent.sizes, FeatureNoise(CrossEntropyLoss(), [50, 10, 1], FEATURES).sizes)


def test_half_precision_is_lowered_in_float32():
    head = LinearHead(FEATURES, len(COUNTS))
    objective, noise = FeatureNoise(CrossEntropyLoss(), COUNTS, FEATURES), torch.randn(2, FEATURES)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = objective.cloud(head, torch.zeros(2, len(COUNTS), dtype=torch.bfloat16), noise)
    assert lowered.dtype == torch.float32
    torch.testing.assert_close(lowered, -0.5 * objective.sizes * (noise @ head.weight.T).abs())


def test_a_negative_strength_is_refused():
    with pytest.raises(ValueError, match="strength"):
        FeatureNoise(CrossEntropyLoss(), COUNTS, FEATURES, strength=-1.0)
