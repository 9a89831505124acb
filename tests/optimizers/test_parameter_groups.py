"""Layer-wise learning rates and weights without decay, against PyTorch's optimisers with parameter groups."""

import copy

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

from helpers.oracles.optimizers import rate_by_step, torch_groups
from tailcloud.backbones import BACKBONES
from tailcloud.classifier import Architecture, build_classifier, meta_classifier
from tailcloud.optimizers import OPTIMIZERS, SGD
from tailcloud.recipe import Stage
from tailcloud.training.schedule import learning_rates

CPU = torch.device("cpu")
THEIRS = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.8),
    "adamw": lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8),
}
DEPTHS = {"head": 0, "layer3": 1, "layer2": 2, "layer1": 3, "bn1": 4, "conv1": 4}  # of a resnet8


def staged(**settings):
    return Stage.model_validate(
        {"epochs": 1, "loss": "ce", "lr": 0.05, "momentum": 0.8, "weight_decay": 0.1, **settings}
    )


@pytest.fixture
def model():
    return build_classifier(Architecture("resnet8", "linear", 0.25, 1, 3), 0).double()


def depth_in(name):
    return DEPTHS[name.removeprefix("backbone.").partition(".")[0]]


@pytest.mark.parametrize("kernel", ["cpu", "nothing"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("settings", [{}, {"layer_decay": 0.7}, {"decay_norms": False}, "everything"])
def test_groups_are_those_of_pytorch(model, name, settings, kernel, monkeypatch):
    """Also with a rate that changes every step, by LambdaLR."""
    monkeypatch.setattr("tailcloud.optimizers.base.FUSED_DEVICES", {kernel})
    if settings == "everything":
        settings = {"layer_decay": 0.6, "decay_norms": False, "lr_factors": {"backbone.layer2": 0.5, "head": 3.0}}
    times = {"epochs": 3, "warmup": 0.5, "schedule": "cosine"}
    stage = staged(lr_interval="step", **times, **settings)
    twin = copy.deepcopy(model)
    ours, parameters = dict(model.named_parameters()), dict(twin.named_parameters())
    more = {part: stage.lr_factors.get(part, 1.0) for part in ("backbone.layer2", "head")}
    factors = {
        part: stage.layer_decay ** depth_in(part)
        * next((factor for key, factor in more.items() if part.startswith(key)), 1.0)
        for part in parameters
    }
    plain = () if stage.decay_norms else [part for part, p in parameters.items() if p.ndim <= 1]
    assert not plain or {"backbone.bn1.weight", "backbone.bn1.bias", "head.bias"} <= set(plain)
    theirs = THEIRS[name](torch_groups(parameters, lr=1.0, decay=0.1, factors=factors, plain=plain))
    schedule = {"steps": 4, "lr": 0.05, "milestones": [], "decay": 1.0, **times}
    follow = LambdaLR(theirs, lambda step: rate_by_step(step, **schedule))
    optimizer = OPTIMIZERS[name](stage, ours, CPU, model.layers())
    generator = torch.Generator().manual_seed(0)
    for rate in (rate for epoch in range(3) for rate in learning_rates(stage, epoch, 4)):
        for part, parameter in ours.items():
            parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameters[part].grad = parameter.grad.clone()
        optimizer.set_rate(rate)
        optimizer.step()
        theirs.step()
        follow.step()
    for part, parameter in ours.items():
        torch.testing.assert_close(parameter, parameters[part], rtol=1e-5, atol=1e-7, msg=part)  # counts in float32


def test_by_default_there_is_one_group(model):
    (group,) = SGD(staged(), dict(model.named_parameters()), CPU, model.layers()).groups
    assert (group.factor, group.decay) == (1.0, 0.1)


def test_a_backbone_that_names_no_layers_is_one(model):
    class Linear(torch.nn.Linear):
        pass

    model.backbone = Linear(2, 2)
    groups = SGD(staged(layer_decay=0.5), dict(model.named_parameters()), CPU, model.layers()).groups
    factors = {name: group.factor for group in groups for name in group.names}
    assert factors == {"backbone.weight": 0.5, "backbone.bias": 0.5, "head.weight": 1.0, "head.bias": 1.0}


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_parameter_of_a_backbone_is_in_one_layer(backbone):
    model = meta_classifier(Architecture(backbone, "linear", 1.0, 3, 2))
    layers = model.layers()
    assert len(layers) >= 4
    for name, _ in model.backbone.named_parameters(prefix="backbone"):
        found = [number for number, parts in enumerate(layers) if any(f"{name}.".startswith(f"{p}.") for p in parts)]
        assert len(found) == 1, name


def test_the_stem_learns_most_slowly_and_the_last_convolution_almost_as_the_head():
    model = meta_classifier(Architecture("efficientnet_lite0", "linear", 1.0, 3, 2))
    parameters = dict(model.named_parameters())
    groups = SGD(staged(layer_decay=0.5), parameters, torch.device("meta"), model.layers()).groups
    factors = {name: group.factor for group in groups for name in group.names}
    names = ("head", "backbone.conv_head", "backbone.blocks.6.0.bn1")
    assert [factors[f"{name}.weight"] for name in names] == [1.0, 0.5, 0.25]
    assert factors["backbone.conv_stem.weight"] == 0.5**9 == min(factors.values())


def test_rates_from_a_table_are_those_that_are_set_one_by_one(model, monkeypatch):
    """As a graph does it: with the number of the step on the device."""
    monkeypatch.setattr("tailcloud.optimizers.base.GRAPH_DEVICES", {"cpu"})
    optimizer = SGD(staged(layer_decay=0.7, decay_norms=False), dict(model.named_parameters()), CPU, model.layers())
    rates = [0.1, 1 / 3, 1e-7]
    table = optimizer.rate_table(rates)
    for step, rate in enumerate(rates):
        optimizer.set_rate(rate)
        expected = [group.rate.clone() for group in optimizer.groups]
        optimizer.set_rate(1.0)
        optimizer.set_rate_from(table, torch.tensor([step]))
        assert all(torch.equal(group.rate, one) for group, one in zip(optimizer.groups, expected, strict=True))
