"""The fused backbone against the plain one in float64: features, gradients, statistics, and what it leaves alone."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from helpers.kernel_device import DEVICE, interpreted_only, needs_somewhere
from helpers.networks import vary_norms
from tailcloud.backbones import CifarResNet, create_backbone
from tailcloud.kernels import residual
from tailcloud.kernels.residual import FusedResNet, fits

pytestmark = needs_somewhere

# Sizes of blocks that make the kernels' loops go round on maps of a few pixels, where all would be one tile.
SMALL_BLOCKS = {"TILE": 256, "PARTIALS": 64, "TILES_PER_SPLIT": 2, "CHUNK": 8, "ADD_BLOCK": 512, "ADD_SPLITS": 2}


def backbone_of(name="resnet8", *, channels=3, width=0.25):
    """A backbone in which every number matters: no weight is one, no bias or running mean zero."""
    torch.manual_seed(0)
    backbone = create_backbone(name, channels=channels, width=width)
    vary_norms(backbone)
    return backbone.to(DEVICE, memory_format=torch.channels_last)


def pair(size, dtype=torch.float32, **options):
    """The same backbone twice: plain in float64, and in fused kernels."""
    backbone = backbone_of(**options)
    return copy.deepcopy(backbone).double(), FusedResNet(backbone, *size, dtype=dtype)


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def set_training(training, *backbones):
    for backbone in backbones:
        backbone.train(training)


def differences(found, exact):
    """How far each tensor is from the exact one, as a part of its largest number; whole numbers must be equal."""
    assert found.keys() == exact.keys()
    for name, value in exact.items():
        assert found[name].shape == value.shape, name
        if value.is_floating_point():
            assert found[name].dtype in {torch.float32, torch.float64}, name
            difference = (found[name].double() - value).abs().max() / value.abs().max()
            yield name, difference.item()
        else:
            assert torch.equal(found[name], value), name


def check_same(found, exact, tolerance=2e-5):
    for name, difference in differences(found, exact):
        assert difference < tolerance, f"{name} differs by {difference:.1e}"


def step(backbone, network, images, slope, lr=0.05):
    """Everything that a step computes and changes: features, gradients, parameters, statistics."""
    backbone.zero_grad()
    features = network(images)
    features.backward(slope.to(features))
    gradients = {f"gradient of {name}": p.grad.clone() for name, p in backbone.named_parameters()}
    torch._foreach_add_([p.data for p in backbone.parameters()], [p.grad for p in backbone.parameters()], alpha=-lr)
    state = {name: value.clone() for name, value in backbone.state_dict().items()}
    return {"features": features.detach(), **gradients, **state}


def check_steps(plain, fused, size, modes, counts):
    """Steps of so many images each, with moving or frozen batch norm."""
    channels = plain.conv1.in_channels
    for seed, (mode, count) in enumerate(zip(modes, counts, strict=True)):
        set_training(mode == "moving", plain, fused.backbone)
        images, slope = normal(count, channels, *size, seed=seed), normal(count, plain.features, seed=seed)
        exact = step(plain, plain, images.double(), slope)
        check_same(step(fused.backbone, fused, images, slope), exact)


@pytest.mark.parametrize(
    ("size", "options", "modes", "counts"),
    [
        ((9, 7), {"width": 0.5}, ["moving"], [2]),
        ((5, 6), {"channels": 1}, ["moving", "frozen"], [2, 2]),
        ((5, 5), {"name": "resnet20"}, ["moving"], [2]),
    ],
    ids=["odd sizes", "grey", "deep"],
)
def test_a_step_is_that_of_the_plain_backbone(size, options, modes, counts):
    plain, fused = pair(size, **options)
    check_steps(plain, fused, size, modes, counts)


def test_as_many_channels_as_there_can_be(monkeypatch):
    monkeypatch.setattr(residual, "ADD_BLOCK", 4096)
    plain, fused = pair((5, 6), width=1.0)
    check_steps(plain, fused, (5, 6), ["moving"], [2])


@interpreted_only
@pytest.mark.parametrize(
    ("modes", "counts", "partials"),
    [(["moving", "moving"], [3, 2], 64), (["frozen"], [2], 64), (["moving", "moving"], [3, 2], 32)],
    ids=["some groups", "frozen", "more groups than are added at once"],
)
def test_maps_of_several_tiles(monkeypatch, modes, counts, partials):
    """Rows that tiles share, a last tile that is not full, and more partial results than are added at once."""
    for name, value in (SMALL_BLOCKS | {"PARTIALS": partials}).items():
        monkeypatch.setattr(residual, name, value)
    size = (7, 5)
    plain, fused = pair(size, width=0.5)
    assert [layer.tiles for layer in fused.layers] == [4, 4, 4, 1, 1, 1, 1]
    check_steps(plain, fused, size, modes, counts)
    (memory,) = fused._workspaces[True]  # a smaller batch is computed in the place of a larger one
    assert max(layer.chunks for layer in fused.layers) > 1
    assert max(memory.splits(group, 3) for group in memory.groups) > 2 * SMALL_BLOCKS["ADD_SPLITS"]
    assert past_the_end(memory) == 0


@pytest.mark.parametrize(("pixels", "size"), [(2, (5, 8)), (4, (9, 7))])
def test_weight_gradients_by_products_of_several_pixels(monkeypatch, pixels, size):
    """Where the map's width is a multiple of the pixels and where it is not."""
    monkeypatch.setattr(residual, "PIXELS", dict.fromkeys((16, 32, 64), pixels))
    monkeypatch.setattr(residual, "TILE", 16 * 8 * pixels * 2)  # two tiles of at least 16 rows of a product, or more
    plain, fused = pair(size)
    assert fused.layers[1].tiles > 1
    assert fused.layers[1].pixels == pixels
    assert fused.layers[3].pixels == 1  # stride 2
    check_steps(plain, fused, size, ["moving"], [1])
    (memory,) = fused._workspaces[True]
    assert past_the_end(memory) == 0


@interpreted_only  # on a GPU their tensor cores want bfloat16
@pytest.mark.parametrize(
    ("size", "tile", "channel_warps"),
    [((9, 7), 1024, 1), ((3, 32), 1024, 1), ((4, 7), 1024, 2)],
    ids=["several rows per instruction", "a row per instruction", "channels shared by warps"],
)
def test_operands_straight_into_registers(monkeypatch, size, tile, channel_warps):
    chosen = residual.Registers(channel_warps, contiguous=4)
    monkeypatch.setattr(residual, "known_registers", lambda _dtype: dict.fromkeys((16, 32, 64), chosen))
    monkeypatch.setattr(residual, "TILE", tile)
    plain, fused = pair(size, width=1.0 if channel_warps > 1 else 0.25)
    used = [layer.registers for layer in fused.layers]
    assert used.count(chosen) >= 2, used
    check_steps(plain, fused, size, ["moving"], [2])
    (memory,) = fused._workspaces[True]
    assert past_the_end(memory) == 0


@interpreted_only
def test_registers_are_for_maps_of_16_bits():
    _, half = pair((4, 4), dtype=torch.bfloat16)
    _, whole = pair((4, 4))
    assert any(layer.known for layer in half.layers)
    assert not any(layer.known for layer in whole.layers)


def test_without_gluon_the_other_kernels_compute(monkeypatch):
    """What does not compile is not tried again by the next network of the same shape."""
    _, fused = pair((4, 4))
    tried = []

    def compile_with(_chains, known, _beside):
        tried.append(len(known))
        if known:
            raise residual.CannotFuse("no gluon")

    monkeypatch.setattr(residual, "_compiling", {})
    fused.use(residual.REGISTERS)
    monkeypatch.setattr(residual, "_compile_with", compile_with)
    fused.compile()
    assert tried == [2, 0]
    assert not any(layer.known for layer in fused.layers)
    fused.compile()
    assert tried == [2, 0]


def past_the_end(memory):
    """The sum of what lies behind the maps, where kernels may read and must not write."""
    maps = memory.raw, memory.kept[:-1], memory.kept[-1:], memory.bordered, memory.gradient, memory.weights
    total = 0.0
    for pieces in maps:
        whole = torch.empty(0, dtype=pieces[0].dtype, device=DEVICE).set_(pieces[0].untyped_storage())
        total += float(whole[sum(map(len, pieces)) :].abs().sum())
    return total


def test_a_larger_batch_gets_memory_of_its_own():
    """The first is kept, because a captured step goes on writing there."""
    _, fused = pair((4, 4))
    small = fused.workspace(2, training=True)
    assert fused.workspace(1, training=True) is small
    large = fused.workspace(3, training=True)
    assert large is not small
    assert fused.workspace(2, training=True) is small
    assert fused.workspace(3, training=True) is large
    assert fused.workspace(2, training=False) not in {small, large}


@interpreted_only
@pytest.mark.parametrize(("size", "width", "images"), [((64, 64), 0.625, 33), ((32, 32), 1.0, 64), ((9, 7), 0.5, 1)])
def test_partial_results_have_room_for_all_programs_and_their_groups(size, width, images):
    """One that wrote past its own would spoil those of the next layer, which lie behind them."""
    _, fused = pair(size, width=width)
    seen = []

    def note(kernel, grid, *arguments, **sizes):
        given = dict(zip(kernel.arg_names, arguments, strict=False))
        if "counter" in given and not sizes.get("LAST"):
            channels = sizes["CO"] if kernel.fn.__name__ == "convolve" else sizes.get("CI", sizes.get("C"))
            groups = -(-grid[0] // sizes["BP"])
            assert len(given["partial"]) >= (2 * grid[0] + 3 * groups) * channels
            assert len(given["counter"]) >= 1 + groups
            seen.append(groups)

    fused.launch = note
    maps = torch.zeros(images, *size, 3)
    fused.backward(maps, fused.forward(maps, training=True))
    assert len(seen) == 2 * len(fused.layers)
    assert (max(seen) > 1) == (size == (64, 64))


def check_evaluation(plain, fused, images, context=torch.no_grad):
    set_training(False, plain, fused.backbone)
    with context():
        features = fused(images)
        check_same({"features": features}, {"features": plain(images.double())})
    assert not features.requires_grad


@pytest.mark.parametrize(("name", "context"), [("resnet8", torch.inference_mode), ("resnet20", torch.no_grad)])
def test_evaluation_has_the_running_statistics_and_leaves_them(name, context):
    plain, fused = pair((3, 2), name=name)
    before = copy.deepcopy(fused.backbone.state_dict())
    check_evaluation(plain, fused, normal(2, 3, 3, 2), context)
    assert not fused._workspaces[True]  # maps take turns instead
    assert all(torch.equal(value, before[name]) for name, value in fused.backbone.state_dict().items())


def test_evaluation_in_several_tiles(monkeypatch):
    """No map takes the place of one whose rows a neighbour still reads."""
    monkeypatch.setattr(residual, "TILE", SMALL_BLOCKS["TILE"])
    plain, fused = pair((5, 8), name="resnet20")
    assert fused.layers[1].tiles > 2
    check_evaluation(plain, fused, normal(1, 3, 5, 8))


def test_evaluation_between_the_passes_disturbs_neither():
    """And weights that moved are seen by the next evaluation."""
    size = (5, 4)
    plain, fused = pair(size)
    images = normal(2, 3, *size)
    learning, gradients = {plain: plain(images.double()), fused.backbone: fused(images)}, []
    check_evaluation(plain, fused, images + 1)
    set_training(True, plain, fused.backbone)
    for backbone, features in learning.items():
        features.square().sum().backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in backbone.named_parameters()})
        torch._foreach_add_([parameter.data for parameter in backbone.parameters()], 0.1)
    check_same(gradients[1], gradients[0])
    check_evaluation(plain, fused, images)


def test_a_backbone_that_is_not_trained_still_moves_its_statistics():
    size = (4, 3)
    plain, fused = pair(size)
    fused.backbone.requires_grad_(False)
    for seed in (1, 2):
        images = normal(2, 3, *size, seed=seed)
        features = fused(images)
        check_same({"features": features}, {"features": plain(images.double())})
        assert not features.requires_grad
    check_same(fused.backbone.state_dict(), plain.state_dict())
    assert fused.backbone.bn1.num_batches_tracked == 2
    assert not fused._workspaces[True]


def test_the_same_bits_whatever_was_in_memory_before():
    size = (4, 3)
    _, fused = pair(size)
    backbone, start = fused.backbone, copy.deepcopy(fused.backbone.state_dict())
    images, slope = normal(2, 3, *size), normal(2, backbone.features)
    found = []
    for _ in range(2):
        backbone.load_state_dict(start)
        found.append(step(backbone, fused, images, slope))
        if len(found) == 1:
            step(backbone, fused, 100 * normal(2, 3, *size, seed=2), slope)
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_nan_reaches_the_features_of_its_image():
    size = (4, 3)
    plain, fused = pair(size)
    set_training(False, plain, fused.backbone)
    images = normal(3, 3, *size)
    images[1, 0, 2, 1] = torch.nan
    with torch.no_grad():
        features, expected = fused(images), plain(images.double())
    assert expected[1].isnan().all()
    assert features[1].isnan().all()
    check_same({"others": features[[0, 2]]}, {"others": expected[[0, 2]]})


def test_nan_in_a_batch_spoils_its_statistics():
    _, fused = pair((4, 3))
    fused.backbone.requires_grad_(False)
    images = normal(2, 3, 4, 3)
    images[0, 1, 0, 0] = torch.nan
    assert fused(images).isnan().all()
    assert fused.backbone.bn1.running_var.isnan().all()


def test_rounding_to_bfloat16_costs_no_more_than_autocast(monkeypatch):
    """At most twice its distance to float64, over all features and over all gradients.

    Almost no ReLU is at 0, where a single one that rounding turns on or off would outweigh all other rounding.
    """
    # oneDNN has instructions for bfloat16 that some processors only claim to have
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    size, count = (6, 6), 4
    plain, fused = pair(size, torch.bfloat16)
    for backbone in (plain, fused.backbone):
        for module in backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.bias, 4.0)
    cast = copy.deepcopy(fused.backbone)
    images, slope = normal(count, 3, *size).bfloat16(), normal(count, plain.features)

    def autocast(images):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            return cast(images)

    exact = step(plain, plain, images.double(), slope)
    found = step(fused.backbone, fused, images, slope), step(cast, autocast, images.float(), slope)
    for name in ("features", "gradient"):
        ours, theirs = (distance(one, exact, name) for one in found)
        assert 1e-3 < theirs < 0.1
        assert ours <= 2 * theirs, f"{name}: {ours:.1e} is more than twice {theirs:.1e}"


def distance(found, exact, kind):
    """The mean relative distance of all tensors of a kind."""
    names = [name for name in exact if name.startswith(kind)]
    each = [float((found[name].double() - exact[name]).norm() / exact[name].norm()) for name in names]
    return sum(each) / len(each)


def test_compiling_ahead_covers_training_and_evaluation_and_changes_nothing(monkeypatch):
    _, fused = pair((3, 2))
    backbone, before = fused.backbone, copy.deepcopy(fused.backbone.state_dict())
    compiled, launched = set(), set()

    def compile_kernel(kernel, *arguments, grid, **sizes):
        compiled.add((kernel, *sorted(sizes.items())))

    def launch(kernel, grid, *arguments, **sizes):
        launched.add((kernel, *sorted(sizes.items())))

    for kernel in vars(residual.kernels).values():
        if hasattr(kernel, "warmup"):
            monkeypatch.setattr(kernel, "warmup", partial(compile_kernel, kernel))
    backbone.requires_grad_(False).eval()
    fused.compile()
    assert not backbone.training
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())
    fused.launch = launch
    images = normal(5, 3, 3, 2)
    with torch.no_grad():
        fused(images)
    backbone.requires_grad_(True).train()
    fused(images).sum().backward()
    assert launched == compiled
    assert len(launched) > 15


class Sibling(CifarResNet):
    """Its forward pass may be another one."""


@pytest.mark.parametrize(
    ("backbone", "fit"),
    [
        (create_backbone("resnet8"), True),
        (create_backbone("resnet110", channels=1, width=0.1), True),
        (create_backbone("resnet8", channels=64), True),
        (create_backbone("resnet8", channels=65), False),
        (create_backbone("resnet8", width=1.1), False),
        (create_backbone("resnet8").double(), False),
        (nn.Sequential(create_backbone("resnet8")), False),
        (Sibling(1), False),
    ],
    ids=["usual", "deep and narrow", "many inputs", "too many inputs", "too wide", "float64", "wrapped", "subclass"],
)
def test_what_fits(backbone, fit):
    assert fits(backbone.to(memory_format=torch.channels_last)) == fit


def test_weights_must_lie_as_the_kernels_read_them():
    assert not fits(create_backbone("resnet8"))
