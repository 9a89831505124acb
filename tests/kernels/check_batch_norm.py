"""Batch norm with ReLU6 or a shortcut against float64 and against PyTorch: values, gradients, running statistics.

By hand, on a GPU: ``pytest tests/kernels/check_batch_norm.py``; without one, with ``TRITON_INTERPRET=1`` before it.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from helpers.kernel_device import DEVICE, INTERPRETED, needs_somewhere
from helpers.oracles import batch_norm as oracle
from tailcloud.backbones.efficientnet_lite import DepthwiseBlock, InvertedResidual
from tailcloud.kernels import batch_norm
from tailcloud.kernels.batch_norm import BatchNormKernel, fits
from tailcloud.training.distributed.sync_batch_norm import SyncBatchNorm

pytestmark = needs_somewhere
needs_gpu = pytest.mark.skipif(INTERPRETED, reason="needs a GPU")

ROUNDING, EXACT = 2**-8, 1e-5  # of bfloat16; of sums in float32
EPSILON, MOMENTUM = 1e-3, 0.01
USES = {"relu6": {"relu6": True}, "shortcut": {"shortcut": True}, "neither": {}}


def layer(channels, momentum=MOMENTUM, seed=0):
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(channels, EPSILON, momentum)
    nn.init.uniform_(norm.weight, 0.5, 3)
    nn.init.normal_(norm.bias, 1)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return norm.to(DEVICE)


def maps_like(*shape, seed=1):
    """Maps whose channels have different means and deviations."""
    generator = torch.Generator().manual_seed(seed)
    means, spreads = (torch.rand(shape[1], 1, 1, generator=generator) for _ in range(2))
    return in_bfloat16(torch.randn(shape, generator=generator) * (0.2 + 2 * spreads) + 4 * means - 2)


def in_bfloat16(maps):
    return maps.to(DEVICE, memory_format=torch.channels_last).bfloat16()


def matrix(maps):
    """[pixels, channels] in float64."""
    return maps.detach().double().cpu().permute(0, 2, 3, 1).flatten(0, 2).numpy()


def array(tensor):
    return tensor.detach().double().cpu().numpy()


def relative(found, expected):
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))


@pytest.fixture
def blocks(request, monkeypatch):
    """Pixels of a program at a time, and how many programs share a sum."""
    pixels, programs = request.param
    monkeypatch.setitem(batch_norm.BLOCK, "PIXELS", pixels)
    monkeypatch.setattr(batch_norm, "SUM_PROGRAMS", programs)


USUAL, SEVERAL_BLOCKS, SEVERAL_SHARES = (128, 528), (8, 4), (8, 528)  # a share of several blocks; more than a block
every_split = pytest.mark.parametrize("blocks", [USUAL, SEVERAL_BLOCKS, SEVERAL_SHARES], indirect=True)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("training", [True, False], ids=["moving", "frozen"])
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((2, 24, 5, 7), USUAL),
        ((2, 24, 5, 7), SEVERAL_BLOCKS),
        ((2, 24, 5, 7), SEVERAL_SHARES),
        ((1, 40, 6, 3), SEVERAL_BLOCKS),  # one image, two groups of channels
        ((3, 112, 3, 4), SEVERAL_SHARES),
        ((2, 1152, 2, 2), USUAL),
        ((5, 16, 1, 1), USUAL),
    ],
    indirect=["blocks"],
)
def test_a_norm_is_that_of_float64(shape, blocks, training, use):
    norm, maps, shortcut = layer(shape[1]).train(training), maps_like(*shape), maps_like(*shape, seed=2)
    weight, bias, running_mean, running_var = (
        array(each) for each in (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    )
    maps.requires_grad_()
    shortcut.requires_grad_()
    relu6, added = use == "relu6", shortcut if use == "shortcut" else None
    kernel = BatchNormKernel([norm])
    result = kernel(norm, maps, relu6=relu6, shortcut=added)
    gradient = maps_like(*shape, seed=3)
    result.backward(gradient)

    x, pixels = matrix(maps), len(matrix(maps))
    mean, variance = oracle.statistics(x) if training else (running_mean, running_var)
    known = weight, bias, mean, variance, EPSILON
    expected = oracle.output(x, *known, relu6=relu6, shortcut=None if added is None else matrix(added))
    assert result.dtype == torch.bfloat16
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert relative(matrix(result), expected) < ROUNDING
    by_maps, by_weight, by_bias = oracle.gradients(x, matrix(gradient), *known, moving=training, relu6=relu6)
    assert relative(matrix(maps.grad), by_maps) < ROUNDING
    assert relative(array(norm.weight.grad), by_weight) < EXACT
    assert relative(array(norm.bias.grad), by_bias) < EXACT
    if added is not None:
        assert torch.equal(shortcut.grad, gradient)
    if training:
        running_mean = oracle.moved(running_mean, mean, MOMENTUM)
        running_var = oracle.moved(running_var, variance * pixels / (pixels - 1), MOMENTUM)
    assert relative(array(norm.running_mean), running_mean) < 1e-6
    assert relative(array(norm.running_var), running_var) < 1e-6
    assert norm.num_batches_tracked == int(training)
    assert not kernel.counters.any()


@pytest.mark.parametrize("blocks", [USUAL, (128, 1), (64, 4)], indirect=True)
@pytest.mark.parametrize("outlier", [0, 1037])
def test_a_large_mean_costs_no_digits(blocks, outlier):
    """One pixel differs: by one step of bfloat16, and by many; the first is the one from which distances are added up.

    Squares of the others need more than 24 bits, and would leave no digit of the variance.
    """
    pixels = torch.full((2560, 16), 255.0)
    pixels[outlier] = torch.tensor([254.0, 30_000.0]).repeat(8)
    norm, maps = layer(16, momentum=1.0), in_bfloat16(pixels.view(2, 32, 40, 16).permute(0, 3, 1, 2))
    BatchNormKernel([norm])(norm, maps)
    mean, variance = oracle.statistics(matrix(maps))
    assert np.allclose(array(norm.running_mean), mean, rtol=1e-7, atol=1e-5 * np.sqrt(variance))
    assert np.allclose(array(norm.running_var), variance * 2560 / 2559, rtol=1e-3)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("training", [True, False], ids=["moving", "frozen"])
def test_a_norm_is_pytorchs(training, use):
    norm, shape = layer(24).train(training), (3, 24, 4, 5)
    plain = nn.BatchNorm2d(24, EPSILON, MOMENTUM).to(DEVICE).train(training)
    plain.load_state_dict(norm.state_dict())
    maps, shortcut = maps_like(*shape).requires_grad_(), maps_like(*shape, seed=2)
    wide = maps.detach().float().requires_grad_()
    added = shortcut if use == "shortcut" else None
    result = BatchNormKernel([norm])(norm, maps, relu6=use == "relu6", shortcut=added)
    expected = F.relu6(plain(wide)) if use == "relu6" else plain(wide) + (0 if added is None else added.float())
    gradient = maps_like(*shape, seed=3)
    result.backward(gradient)
    expected.backward(gradient.float())
    assert relative(matrix(result), matrix(expected)) < ROUNDING
    assert relative(matrix(maps.grad), matrix(wide.grad)) < ROUNDING
    for name, value in plain.state_dict().items():
        assert torch.allclose(norm.state_dict()[name], value, rtol=1e-6, atol=1e-7), name
    for found, wanted in zip(norm.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(found.grad, wanted.grad, rtol=1e-5, atol=1e-5)


@every_split
def test_the_bits_are_the_same_each_time(blocks):
    found = []
    for _ in range(2):
        norm, maps = layer(40), maps_like(2, 40, 5, 5).requires_grad_()
        result = BatchNormKernel([norm])(norm, maps, relu6=True)
        result.backward(maps_like(2, 40, 5, 5, seed=3))
        found.append([result, maps.grad, *(each.grad for each in norm.parameters()), *norm.buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("training", [True, False], ids=["moving", "frozen"])
@pytest.mark.parametrize(("of_maps", "of_norm"), [(True, False), (False, True)])
def test_only_what_is_trained_has_gradients(training, of_maps, of_norm):
    found = []
    for maps_trained, norm_trained in ((True, True), (of_maps, of_norm)):
        norm, maps = layer(24).train(training), maps_like(2, 24, 3, 3).requires_grad_(maps_trained)
        norm.requires_grad_(norm_trained)
        BatchNormKernel([norm])(norm, maps, relu6=True).backward(maps_like(2, 24, 3, 3, seed=3))
        found.append([maps.grad, norm.weight.grad, norm.bias.grad])
    everything, some = found
    assert [each is not None for each in some] == [of_maps, of_norm, of_norm]
    assert all(one is None or torch.equal(one, other) for one, other in zip(some, everything, strict=True))


def test_gradients_of_several_batches_add_up():
    norm, sums = layer(24), 0
    kernel = BatchNormKernel([norm])
    for seed in (1, 2):
        other = layer(24)
        for each in (norm, other):
            kernel(each, maps_like(2, 24, 3, 3, seed=seed), relu6=True).backward(maps_like(2, 24, 3, 3, seed=3))
        sums = sums + other.weight.grad
    assert torch.equal(norm.weight.grad, sums)


def test_any_layout_is_read():
    norm, maps = layer(24), maps_like(2, 24, 3, 4)
    expected = BatchNormKernel([norm])(norm.eval(), maps, relu6=True, shortcut=None)
    other = maps.contiguous().requires_grad_()
    result = BatchNormKernel([norm])(norm, other, relu6=True)
    assert torch.equal(result, expected)
    result.sum().backward()  # the gradient is one number, expanded
    assert torch.isfinite(other.grad).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_visible(bad):
    norm, maps = layer(16), maps_like(2, 16, 3, 3)
    maps[0, 5, 1, 1] = bad
    result = BatchNormKernel([norm])(norm, maps, relu6=True)
    assert result[:, 5].isnan().all()
    assert norm.running_var[5].isnan()
    assert not result[:, :5].isnan().any()


def test_one_number_has_no_variance():
    norm = layer(16)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        BatchNormKernel([norm])(norm, maps_like(1, 16, 1, 1))
    assert BatchNormKernel([norm])(norm.eval(), maps_like(1, 16, 1, 1)).isfinite().all()


def test_which_layers_they_are_for():
    assert fits(nn.BatchNorm2d(1152))
    assert not fits(SyncBatchNorm(nn.BatchNorm2d(16), None))
    assert not fits(nn.BatchNorm2d(12))
    assert not fits(nn.BatchNorm2d(16, momentum=None))
    assert not fits(nn.BatchNorm2d(16, affine=False))
    assert not fits(nn.BatchNorm2d(16, track_running_stats=False))
    assert not fits(nn.Identity())


def parts_of(block, maps, path_weight):
    """Output, gradients and statistics of a block as training computes them."""
    block.zero_grad()
    maps = maps.clone().requires_grad_()
    with torch.autocast(DEVICE.type, torch.bfloat16):
        result = block(maps, path_weight)
    result.backward(maps_like(*result.shape, seed=3))
    return [result, maps.grad, *(each.grad for each in block.parameters()), *(each.clone() for each in block.buffers())]


def with_kernels(block):
    norms = [each for each in block.modules() if fits(each)]
    kernel = BatchNormKernel(norms)
    for norm in norms:
        norm.kernel = kernel
    return block


@pytest.mark.parametrize("training", [True, False], ids=["moving", "frozen"])
@pytest.mark.parametrize("path_weight", [None, [0.0, 2.0, 2.0]], ids=["whole", "drop path"])
@pytest.mark.parametrize("kind", [DepthwiseBlock, InvertedResidual])
def test_a_block_with_kernels_is_the_block_without(kind, path_weight, training):
    torch.manual_seed(0)
    block = kind(16, 16, 3, 1, *([3] if kind is InvertedResidual else []))
    block = block.to(DEVICE, memory_format=torch.channels_last).train(training)
    path_weight = None if path_weight is None else torch.tensor(path_weight, device=DEVICE)
    before = {name: value.clone() for name, value in block.state_dict().items()}
    maps = maps_like(3, 16, 5, 6)
    plain = parts_of(block, maps, path_weight)
    block.load_state_dict(before)
    fused = parts_of(with_kernels(block), maps, path_weight)
    assert list(block.state_dict()) == list(before)
    for found, expected in zip(fused, plain, strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert relative(array(found), array(expected)) < 8 * ROUNDING  # rounded at other places


@needs_gpu
@pytest.mark.parametrize("shape", [(128, 96, 64, 64), (128, 32, 64, 64), (128, 24, 32, 32), (128, 1152, 4, 4)])
def test_whole_batches_are_those_of_float64(shape):
    norm, maps, gradient = layer(shape[1]), maps_like(*shape).requires_grad_(), maps_like(*shape, seed=3)
    exact = nn.BatchNorm2d(shape[1], EPSILON, MOMENTUM).to(DEVICE).double()
    exact.load_state_dict(norm.state_dict())
    wide = maps.detach().double().requires_grad_()
    expected = exact(wide)
    at_corner = torch.minimum(expected.abs(), (expected - 6).abs()) < 1e-4  # of ReLU6: its slope there is rounding
    gradient[at_corner] = 0
    expected = F.relu6(expected)
    expected.backward(gradient.double())
    result = BatchNormKernel([norm])(norm, maps, relu6=True)
    result.backward(gradient)
    pairs = [(result, expected, ROUNDING), (maps.grad, wide.grad, ROUNDING)]
    pairs += [(norm.weight.grad, exact.weight.grad, 1e-4), (norm.bias.grad, exact.bias.grad, 1e-4)]
    pairs += [(norm.running_mean, exact.running_mean, 1e-6), (norm.running_var, exact.running_var, 1e-6)]
    for found, wanted, tolerance in pairs:
        assert float((found.double() - wanted).abs().max() / wanted.abs().max()) < tolerance


@needs_gpu
@pytest.mark.parametrize("training", [True, False], ids=["moving", "frozen"])
def test_a_graph_computes_the_bits_of_eager_steps(training):
    norms = nn.ModuleList(layer(40, seed=seed) for seed in range(2)).train(training)
    kernel, gradient = BatchNormKernel([*norms]), maps_like(32, 40, 16, 16, seed=9)
    batches = [maps_like(32, 40, 16, 16, seed=seed) for seed in range(3)]
    before = {name: value.clone() for name, value in norms.state_dict().items()}

    def step(maps):
        norms.zero_grad()
        maps = maps.clone().requires_grad_()
        inner = kernel(norms[0], maps, relu6=True)
        result = kernel(norms[1], inner, shortcut=maps)
        result.backward(gradient)
        trained = [each.grad for each in norms.parameters()]
        # A graph of gradients that lives on would have its sums on the stream of the eager steps, outside of a capture.
        return [result.detach(), maps.grad, *trained, *(each.clone() for each in norms.buffers())]

    eager = [step(maps) for maps in batches]
    static, graph, stream = batches[0].clone(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(static)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        captured = step(static)
    norms.load_state_dict(before)
    for maps, expected in zip(batches, eager, strict=True):
        static.copy_(maps)
        graph.replay()
        assert all(torch.equal(found, wanted) for found, wanted in zip(captured, expected, strict=True))
