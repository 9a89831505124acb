"""What a stage minimises: both terms of a mixed batch, against a naive float64 computation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import clouds
from tailcloud.data.loaders.batch import Batch
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import Classify

COUNTS = [90, 20, 6, 1]
OPTIONS = {"scale": 12.0, "noise": 0.8, "margin": 0.1, "focal": 1.0, "strategy": "log"}


def the_images_themselves(images):
    """A model whose outputs are its inputs."""
    return images


def mixed_batch(seed, rows=9, lam=0.3):
    generator = torch.Generator().manual_seed(seed)
    cosine = torch.rand(rows, len(COUNTS), generator=generator, dtype=torch.float64) * 2 - 1
    target, other = (torch.randint(len(COUNTS), (rows,), generator=generator) for _ in range(2))
    return Batch(cosine, target, other, torch.tensor(lam, dtype=torch.float64)), generator


def naive(batch, target, epsilon):
    return clouds.gcl_loss(batch.images.tolist(), target.tolist(), epsilon.tolist(), COUNTS, **OPTIONS)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), lam=st.floats(0, 1))
def test_a_mixed_batch_weighs_two_losses_with_clouds_of_their_own(seed, lam):
    batch, generator = mixed_batch(seed, lam=lam)
    objective = Classify(GCLLoss(COUNTS, **OPTIONS))
    first, second = objective.draw(batch, generator)
    expected = lam * naive(batch, batch.target, first) + (1 - lam) * naive(batch, batch.other, second)
    value = objective(the_images_themselves, batch, (first, second))
    assert value.item() == pytest.approx(expected, rel=1e-6)


def test_the_two_terms_draw_independently():
    batch, generator = mixed_batch(1, rows=2000)
    first, second = Classify(GCLLoss(COUNTS)).draw(batch, generator)
    assert first.shape == second.shape == (2000, len(COUNTS))
    together = torch.stack([first.flatten(), second.flatten()])
    assert abs(torch.corrcoef(together)[0, 1].item()) < 0.05


def test_draws_follow_from_the_generator_alone():
    batch, _ = mixed_batch(2)
    objective = Classify(GCLLoss(COUNTS))
    same, again, other = (objective.draw(batch, torch.Generator().manual_seed(s)) for s in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(same, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(same, other, strict=True))


def test_a_plain_batch_is_one_loss_and_one_draw():
    mixed, generator = mixed_batch(3)
    batch = Batch(mixed.images, mixed.target)
    objective = Classify(GCLLoss(COUNTS, **OPTIONS))
    first, second = objective.draw(batch, generator)
    assert second is None
    value = objective(the_images_themselves, batch, (first, second))
    assert value.item() == pytest.approx(naive(batch, batch.target, first), rel=1e-6)


def test_a_loss_without_clouds_is_mixed_all_the_same():
    batch, generator = mixed_batch(4)
    objective = Classify(CrossEntropyLoss())
    noise = objective.draw(batch, generator)
    assert noise == (None, None)
    entropy = torch.nn.functional.cross_entropy
    expected = 0.3 * entropy(batch.images, batch.target) + 0.7 * entropy(batch.images, batch.other)
    torch.testing.assert_close(objective(the_images_themselves, batch, noise), expected)
