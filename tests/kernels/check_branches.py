"""Backbones with branches by the fused kernels, against the plain ones in float64."""

import copy

import pytest
import torch
from torch import nn

from helpers.kernel_device import DEVICE, interpreted_only, needs_somewhere
from helpers.networks import vary_norms
from tailcloud.backbones import create_backbone
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.kernels import FusedNetwork, residual
from tailcloud.kernels.branches import FusedBranches, fused_backbone, parts_of
from tailcloud.kernels.residual import FusedResNet, Registers, fits
from tailcloud.losses import CrossEntropyLoss
from tailcloud.objectives.bbn import BBN
from tailcloud.objectives.experts import Experts

pytestmark = needs_somewhere

TWO, THREE = "resnet8-two-branch", "resnet8-3-experts"
DEEPER = "resnet20-two-branch"  # its branches have stride 1, as those of every deeper one
SMALL = {"TILE": 256, "PARTIALS": 64}  # maps of a few pixels have several tiles then, and several groups of sums


def pair(name, size, dtype=torch.float32, width=0.25):
    """The same backbone twice: plain in float64, and in fused kernels. Every number matters: none is one or zero."""
    torch.manual_seed(0)
    backbone = create_backbone(name, channels=3, width=width)
    vary_norms(backbone)
    backbone.to(DEVICE, memory_format=torch.channels_last)
    return copy.deepcopy(backbone).double(), FusedBranches(backbone, *size, dtype)


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def check_close(found, exact, what, tolerance=3e-5):
    difference = (found.double() - exact).abs().max() / exact.abs().max()
    assert difference < tolerance, f"{what} differs by {difference:.1e}"


def check_step(plain, fused, images, tolerance=3e-5):
    """Features, gradients of all parameters, and statistics."""
    for backbone in (plain, fused.backbone):
        backbone.zero_grad()
    features, exact = fused(images), plain(images.double())
    check_close(features, exact, "features", tolerance)
    slope = normal(*features.shape, seed=2)
    features.backward(slope)
    exact.backward(slope.double())
    found = dict(fused.backbone.named_parameters())
    for name, parameter in plain.named_parameters():
        check_close(found[name].grad, parameter.grad, f"gradient of {name}", tolerance)
    state = fused.backbone.state_dict()
    for name, value in plain.state_dict().items():
        if "tracked" in name:
            assert torch.equal(state[name], value), name
        else:
            check_close(state[name], value, name, tolerance)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (TWO, (2, 3, 3, 8, 6)),
        (DEEPER, (2, 2, 3, 8, 6)),
        (TWO, (3, 3, 8, 6)),
        (THREE, (3, 3, 8, 5)),
        (THREE, (2, 3, 15, 17)),
    ],
    ids=["pairs", "deeper pairs", "both ends see all", "experts", "experts with several tiles"],
)
def test_a_step_is_that_of_the_plain_backbone(monkeypatch, name, shape, small):
    if small:
        for size, value in SMALL.items():
            monkeypatch.setattr(residual, size, value)
    plain, fused = pair(name, shape[-2:])
    for seed in (1, 3):
        check_step(plain, fused, normal(*shape, seed=seed))


def test_frozen_norms():
    plain, fused = pair(THREE, (8, 8))
    for backbone in (plain, fused.backbone):
        backbone.eval()
    check_step(plain, fused, normal(2, 3, 8, 8))


def test_an_end_that_learns_nothing_gives_nothing_back():
    """The gradients of a pair are apart: what one end sees changes nothing for the other."""
    _, fused = pair(TWO, (4, 4))
    features = fused(normal(2, 2, 3, 4, 4))
    slope = torch.zeros_like(features)
    slope[:, : features.shape[1] // 2] = 1.0
    features.backward(slope)
    gradients = {name: parameter.grad.abs().sum() for name, parameter in fused.backbone.named_parameters()}
    assert all(total == 0 for name, total in gradients.items() if name.startswith("branch_b"))
    assert all(total > 0 for name, total in gradients.items() if name == "conv1.weight" or "branch_a.conv" in name)


@pytest.mark.parametrize("name", [TWO, THREE])
def test_evaluation_has_the_running_statistics_and_leaves_them(name):
    plain, fused = pair(name, (6, 6))
    images = normal(3, 3, 6, 6)
    with torch.no_grad():
        for backbone in (plain, fused.backbone):
            backbone(images.to(next(backbone.parameters()).dtype))  # other statistics than at the start
            backbone.eval()
        before = {key: value.clone() for key, value in fused.backbone.state_dict().items()}
        check_close(fused(images), plain(images.double()), "features", 1e-4)
    assert all(torch.equal(value, before[key]) for key, value in fused.backbone.state_dict().items())


def test_a_trunk_that_is_not_trained():
    """A stage that trains the head alone: no gradients, and the statistics move."""
    plain, fused = pair(TWO, (4, 4))
    for backbone in (plain, fused.backbone):
        backbone.requires_grad_(False)
    images = normal(2, 2, 3, 4, 4)
    features = fused(images)
    assert not features.requires_grad
    check_close(features, plain(images.double()), "features")
    check_close(fused.backbone.bn1.running_mean, plain.bn1.running_mean, "running mean")


@pytest.mark.parametrize(("name", "make"), [(TWO, BBN), (THREE, Experts)], ids=["bbn", "experts"])
def test_an_objective_has_the_loss_and_the_gradients_of_the_plain_model(name, make):
    model = build_classifier(Architecture(name, "linear", 0.25, 3, 3), 0).to(DEVICE, memory_format=torch.channels_last)
    plain, fused = copy.deepcopy(model).double(), FusedNetwork(model, 8, 8)
    fused.backbone = FusedBranches(model.backbone, 8, 8, torch.float32)
    objective = make(CrossEntropyLoss(), [9, 3, 1], model.backbone.features).to(DEVICE)
    objective.advance(0.4)
    target = torch.tensor([0, 1, 2, 0], device=DEVICE)
    images, others = normal(4, 3, 8, 8), normal(4, 3, 8, 8, seed=2)

    def step(network, kind):
        batch = Batch(images.to(kind), target, second=Batch(others.to(kind), target.flip(0)))
        loss = objective(network, batch, objective.draw(batch, torch.Generator(DEVICE)))
        loss.backward()
        return loss.detach()

    check_close(step(fused, torch.float32), step(plain, torch.float64), "loss")
    found = dict(model.named_parameters())
    for parameter, value in plain.named_parameters():
        check_close(found[parameter].grad, value.grad, f"gradient of {parameter}", 1e-4)


@interpreted_only  # on a GPU their tensor cores want bfloat16
def test_operands_straight_into_registers(monkeypatch):
    monkeypatch.setattr(residual, "known_registers", lambda _dtype: dict.fromkeys((16, 32, 64), Registers(1, 4)))
    plain, fused = pair(DEEPER, (32, 28))
    assert all(layer.registers for end in fused.ends for layer in end.layers)
    check_step(plain, fused, normal(2, 1, 3, 32, 28))


def test_every_convolution_is_in_one_part():
    for name in (TWO, THREE, "resnet32-two-branch", "resnet32-3-experts"):
        backbone = create_backbone(name)
        shared, ends = parts_of(backbone)
        convolutions = [conv for part in (shared, *ends) for block in part for conv in (block.conv1, block.conv2)]
        every = [module for module in backbone.modules() if isinstance(module, nn.Conv2d)]
        assert {id(conv) for conv in (*convolutions, backbone.conv1)} == {id(conv) for conv in every}
        assert len(convolutions) + 1 == len(every)


def test_which_backbones_fit():
    for name, kind in {"resnet8": FusedResNet, TWO: FusedBranches, THREE: FusedBranches}.items():
        backbone = create_backbone(name).to(memory_format=torch.channels_last)
        assert fits(backbone)
        assert type(fused_backbone(backbone, 8, 8)) is kind
    assert not fits(create_backbone(TWO, width=1.5).to(memory_format=torch.channels_last))
    assert not fits(create_backbone(TWO).double().to(memory_format=torch.channels_last))


def test_compiling_ahead_covers_training_and_evaluation(monkeypatch):
    """Every kernel that a step or an evaluation launches was among the compilations, with the same sizes."""
    _, fused = pair(TWO, (8, 8))
    ahead, launched = set(), set()
    chains = [fused.trunk, *fused.ends]
    for chain in chains:
        ahead |= {(work.func.__self__, *sorted(sizes_of(work))) for work in chain.compilations({})}

    def note(kernel, _grid, *_arguments, **sizes):
        launched.add((kernel, *sorted(sizes.items())))

    for chain in chains:
        monkeypatch.setattr(chain, "launch", note)
    fused(normal(2, 2, 3, 8, 8)).sum().backward()
    fused.backbone.eval()
    with torch.no_grad():
        fused(normal(2, 3, 8, 8))
    assert launched <= ahead


def test_ends_of_one_shape_are_compiled_once(monkeypatch):
    _, fused = pair(THREE, (8, 8))
    compiled = []
    monkeypatch.setattr(residual, "_compiling", {})
    monkeypatch.setattr(residual, "compile_together", compiled.extend)
    fused.compile()
    assert len(compiled) == sum(len(chain.compilations({})) for chain in (fused.trunk, fused.ends[0]))


def sizes_of(work):
    return {(key, value) for key, value in work.keywords.items() if key != "grid"}
