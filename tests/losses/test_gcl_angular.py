"""Angular GCL against a naive float64 oracle that really takes angles, and its edge cases."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracles import objectives as oracle
from tailcloud.losses import GCLAngularLoss, GCLLoss

COUNTS = [500, 120, 30, 5, 1]
CPU = torch.device("cpu")


def random_batch(seed, rows=7):
    generator = torch.Generator().manual_seed(seed)
    cosine = torch.rand(rows, len(COUNTS), generator=generator, dtype=torch.float64) * 2 - 1
    target = torch.randint(len(COUNTS), (rows,), generator=generator)
    return cosine, target, GCLAngularLoss(COUNTS).draw(rows, CPU, generator).double()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(1, 40),
    strength=st.floats(0, 1),
    margin=st.sampled_from([0.0, 0.1, 0.5]),
    easy_margin=st.booleans(),
    focal=st.sampled_from([0.0, 1.0, 2.0]),
)
def test_matches_the_oracle(seed, **options):
    cosine, target, epsilon = random_batch(seed)
    loss = GCLAngularLoss(COUNTS, **options)(cosine, target, epsilon=epsilon)
    expected = oracle.angular(cosine.tolist(), target.tolist(), epsilon.tolist(), COUNTS, **options)
    assert loss.item() == pytest.approx(expected, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("easy_margin", [False, True])
def test_gradients_match_finite_differences(easy_margin):
    cosine, target, epsilon = random_batch(3)
    loss = GCLAngularLoss(COUNTS, strength=0.5, margin=0.2, scale=8.0, easy_margin=easy_margin)
    assert torch.autograd.gradcheck(lambda c: loss(c, target, epsilon=epsilon), cosine.requires_grad_())


def test_without_clouds_and_margin_it_is_cross_entropy_on_scaled_cosines():
    cosine, target, epsilon = random_batch(4)
    plain = torch.nn.functional.cross_entropy(30 * cosine, target)
    torch.testing.assert_close(GCLAngularLoss(COUNTS, strength=0.0)(cosine, target, epsilon=epsilon), plain)
    torch.testing.assert_close(GCLAngularLoss([7] * 5, strength=0.5)(cosine, target, epsilon=epsilon), plain)


@pytest.mark.parametrize("easy_margin", [False, True])
def test_a_turn_never_raises_a_cosine(easy_margin):
    cosine = torch.linspace(-1, 1, 401, dtype=torch.float64)[:, None]
    turns = torch.linspace(0, math.pi, 101, dtype=torch.float64)[None, :]
    turned = GCLAngularLoss(COUNTS, easy_margin=easy_margin).turn(cosine, turns)
    assert (turned <= cosine + 2e-6).all()


@pytest.mark.parametrize("easy_margin", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_cosines_at_their_ends_have_finite_gradients(dtype, easy_margin):
    cosine = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]], dtype=dtype, requires_grad=True)
    loss = GCLAngularLoss([10, 1], strength=1.0, margin=0.5, easy_margin=easy_margin)
    loss(cosine, torch.tensor([0, 1, 1])).backward()
    assert torch.isfinite(cosine.grad).all()


def test_it_draws_the_clouds_of_gcl():
    drawn = [each(COUNTS).draw(9, CPU, torch.Generator().manual_seed(1)) for each in (GCLLoss, GCLAngularLoss)]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("options", [{"scale": 0.0}, {"strength": -1.0}, {"margin": -0.1}, {"focal": -1.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        GCLAngularLoss(COUNTS, **options)
