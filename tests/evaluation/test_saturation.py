"""The gradient on the target logit against formulas, and its mean per class."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracles import saturation as oracle
from helpers.oracles.losses import class_weights
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation.saturation import DRAWS, class_gradients, target_gradients
from tailcloud.losses import LOSSES

COUNTS = [120, 30, 4]
seeds = st.integers(0, 10_000)


def sample(seed, rows=7):
    random = torch.Generator().manual_seed(seed)
    cosine = torch.rand(rows, 3, generator=random, dtype=torch.float64) * 2 - 1
    return cosine, torch.randint(0, 3, (rows,), generator=random)


@given(seeds, st.sampled_from([1.0, 5.0, 30.0]))
def test_cross_entropy_leaves_one_minus_the_probability(seed, scale):
    output, target = sample(seed)
    found = target_gradients(LOSSES["ce"](COUNTS, scale=scale), output, target)
    logits = (scale * output).tolist()
    expected = [oracle.cross_entropy(row, y) for row, y in zip(logits, target.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@given(seeds, st.sampled_from([(0.0, 0.0), (0.1, 1.0), (0.2, 2.0)]))
def test_gcl_with_given_clouds(seed, options):
    margin, focal = options
    output, target = sample(seed)
    loss = LOSSES["gcl"](COUNTS, scale=10.0, noise=0.5, margin=margin, focal=focal)
    epsilon = loss.draw(len(target), output.device, torch.Generator().manual_seed(seed)).double()
    found = target_gradients(loss, output, target, epsilon)
    expected = [
        oracle.gcl(row, y, cloud, COUNTS, scale=10.0, noise=0.5, margin=margin, focal=focal)
        for row, y, cloud in zip(output.tolist(), target.tolist(), epsilon.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_class_weights_count():
    output, target = sample(3)
    found = target_gradients(LOSSES["ce"](COUNTS, weights="inverse"), output, target)
    weights = class_weights(COUNTS, "inverse", None)
    share = len(target) / sum(weights[y] for y in target.tolist())
    expected = [
        share * weights[y] * oracle.cross_entropy(row, y)
        for row, y in zip(output.tolist(), target.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_loss_can_be_watched(name):
    output, target = sample(0)
    loss = LOSSES[name](COUNTS)
    epsilon = loss.draw(len(target), output.device, torch.Generator().manual_seed(0))
    found = target_gradients(loss, output.float(), target, epsilon)
    assert found.shape == target.shape
    assert torch.isfinite(found).all()


def watched(loss, batches, seed=0):
    return class_gradients(torch.nn.Identity(), batches, loss, 4, torch.Generator().manual_seed(seed))


def test_classes_are_averaged_over_batches_and_an_absent_one_is_none():
    output, target = sample(5, rows=20)
    target[0] = 0
    batches = [Batch(output[:13], target[:13]), Batch(output[13:], target[13:])]
    found = watched(LOSSES["ce"](), batches)
    each = target_gradients(LOSSES["ce"](), output, target)
    expected = [each[target == c].mean().item() for c in range(3)]
    assert found == [*(pytest.approx(value, rel=1e-3) for value in expected), None]


def test_clouds_are_drawn_from_the_given_generator_and_averaged():
    output, target = sample(6)
    loss = LOSSES["gcl"](COUNTS, noise=1.0)
    state = torch.get_rng_state()
    found = watched(loss, [Batch(output, target)])
    assert torch.equal(torch.get_rng_state(), state)
    assert found == watched(loss, [Batch(output, target)])
    assert found != watched(loss, [Batch(output, target)], seed=1)
    random = torch.Generator().manual_seed(0)
    draws = [loss.draw(len(target), output.device, random) for _ in range(DRAWS)]
    each = torch.stack([target_gradients(loss, output, target, epsilon) for epsilon in draws]).mean(dim=0)
    expected = [each[target == c].mean().item() for c in set(target.tolist())]
    assert [value for value in found if value is not None] == pytest.approx(expected, rel=1e-3)


def test_nothing_is_left_behind_in_the_network():
    network = torch.nn.Linear(3, 3)
    output, target = sample(7)
    class_gradients(network, [Batch(output.float(), target)], LOSSES["ce"](), 3, torch.Generator())
    assert network.weight.grad is None
