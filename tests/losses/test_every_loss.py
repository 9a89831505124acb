"""What every loss must do, whatever its formula."""

import pytest
import torch

from tailcloud.losses import LOSSES, CrossEntropyLoss


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]([40, 4, 1])


def test_is_a_finite_scalar_with_gradients(loss):
    output = (torch.rand(6, 3) * 2 - 1).requires_grad_()
    value = loss(output, torch.tensor([0, 1, 2, 0, 1, 2]))
    value.backward()
    assert value.shape == ()
    assert torch.isfinite(output.grad).all()


def test_computes_half_precision_in_float32(loss):
    assert loss(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1])).dtype == torch.float32


def test_is_zero_on_an_empty_batch(loss):
    assert loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)) == 0


def test_draws_nothing_by_itself_when_given_its_noise(loss):
    noise = loss.draw(2, torch.device("cpu"), torch.Generator().manual_seed(1))
    before = torch.random.get_rng_state()
    first, second = (loss(torch.tensor([[0.5, 0.1, 0.0]] * 2), torch.tensor([0, 1]), epsilon=noise) for _ in range(2))
    if noise is not None:
        assert torch.equal(torch.random.get_rng_state(), before)
    assert first == second


def test_cross_entropy_is_pytorchs():
    output, target = torch.randn(8, 5, dtype=torch.float64), torch.randint(5, (8,))
    torch.testing.assert_close(CrossEntropyLoss()(output, target), torch.nn.functional.cross_entropy(output, target))
    torch.testing.assert_close(
        CrossEntropyLoss(scale=30.0)(output, target), torch.nn.functional.cross_entropy(30 * output, target)
    )
