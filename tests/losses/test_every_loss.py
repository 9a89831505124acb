"""What every loss must do, whatever its formula."""

import pytest
import torch

from tailcloud.errors import TailcloudWarning
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


@pytest.mark.parametrize("counts", [[9], [9, 9, 9], [100, 1], [3_000_000, 7, 1]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", LOSSES)
def test_unusual_counts_and_types_stay_finite(name, counts, dtype):
    output = (torch.eye(len(counts)).repeat(2, 1) * 2 - 1).to(dtype).requires_grad_()
    value = LOSSES[name](counts)(output, torch.arange(len(counts)).repeat(2))
    value.backward()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.isfinite(value)
    assert torch.isfinite(output.grad).all()
    if len(counts) == 1 and name != "lade":  # whose regulariser is of the logits themselves
        assert value == 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore::tailcloud.errors.TailcloudWarning")
def test_an_absent_class_is_a_class_of_one_image(name):
    output, target = torch.rand(4, 3), torch.tensor([0, 1, 1, 0])
    absent, single = (LOSSES[name](counts) for counts in ([50, 10, 0], [50, 10, 1]))
    noise = absent.draw(4, torch.device("cpu"))
    assert torch.equal(absent(output, target, epsilon=noise), single(output, target, epsilon=noise))


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"ce", "focal"}))
def test_a_loss_that_needs_counts_warns_of_absent_classes(name):
    with pytest.warns(TailcloudWarning, match="class 2"):
        LOSSES[name]([50, 10, 0])


@pytest.mark.parametrize("name", LOSSES)
def test_advancing_moves_no_buffer(name):
    loss = LOSSES[name]([40, 4, 1])
    before = {key: buffer.data_ptr() for key, buffer in loss.named_buffers()}
    for share in (0.0, 0.5, 0.99):
        loss.advance(share)
    assert {key: buffer.data_ptr() for key, buffer in loss.named_buffers()} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_compiles_whole(name):
    loss = LOSSES[name]([40, 4, 1])
    output, target = (torch.rand(6, 3) * 2 - 1).requires_grad_(), torch.tensor([0, 1, 2, 0, 1, 2])
    noise = loss.draw(6, torch.device("cpu"))
    whole = torch.compile(loss, fullgraph=True, backend="aot_eager")
    eager, compiled = (each(output, target, epsilon=noise) for each in (loss, whole))
    torch.testing.assert_close(compiled, eager)
    torch.testing.assert_close(*(torch.autograd.grad(value, output)[0] for value in (compiled, eager)))


def test_cross_entropy_is_pytorchs():
    output, target = torch.randn(8, 5, dtype=torch.float64), torch.randint(5, (8,))
    torch.testing.assert_close(CrossEntropyLoss()(output, target), torch.nn.functional.cross_entropy(output, target))
    torch.testing.assert_close(
        CrossEntropyLoss(scale=30.0)(output, target), torch.nn.functional.cross_entropy(30 * output, target)
    )
