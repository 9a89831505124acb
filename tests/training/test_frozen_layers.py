"""Layers that a stage leaves as they are: computed faster, and nothing else changes."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from helpers.runs import Interrupted, StopAfter, run, same_weights, small_recipe
from tailcloud.backbones import BACKBONES, create_backbone
from tailcloud.backbones.base import global_average_pool
from tailcloud.classifier import Architecture, Classifier
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe
from tailcloud.training.frozen_layers import FrozenLayersNetwork
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts
from tailcloud.training.stages.start import start_stage
from tailcloud.training.stages.trainable import frozen_layers, set_modes, set_trainable

LAST = {
    "efficientnet_lite0": "backbone.blocks.6+backbone.conv_head+backbone.bn2+head",
    "resnet18": "backbone.layer4+head",
}


def model(name, *, classes=5):
    torch.manual_seed(0)
    made = Classifier(Architecture(name, "linear", 1.0, 3, classes))
    made.train()
    with torch.no_grad():
        made(2 * torch.randn(8, 3, 64, 64) + 1)  # so that batch norm has statistics
    return made


def stage(name, train, **others):
    return load_recipe("digits-lt/ce", [{"model": {"backbone": name}, "stage1": {"train": train, **others}}]).stage1


def is_sequential(backbone):
    return vars(type(backbone)).get("sequential", False)


@pytest.mark.parametrize("name", [name for name in BACKBONES if is_sequential(create_backbone(name))])
def test_layers_one_after_the_other_are_the_backbone(name):
    backbone, images = create_backbone(name).eval(), torch.randn(2, 3, 64, 64)
    maps = images
    for number in range(len(backbone.layers())):
        maps = backbone.layer(number, maps)
    assert torch.equal(global_average_pool(maps), backbone(images))


def test_a_backbone_with_two_branches_is_not_computed_layer_by_layer():
    assert not is_sequential(create_backbone("resnet50-two-branch"))
    with pytest.raises(NotImplementedError, match="CifarResNet is not computed layer by layer"):
        create_backbone("resnet8").layer(0, torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("name", "train", "count"),
    [
        ("efficientnet_lite0", "all", 0),
        ("efficientnet_lite0", "backbone.blocks.6+backbone.conv_head+backbone.bn2+head", 7),
        ("efficientnet_lite0", "backbone.blocks.6.0.conv_pwl+head", 7),  # a part of a layer
        ("efficientnet_lite0", "backbone.conv_stem+head", 0),
        ("resnet18", "backbone.layer4+head", 4),
        ("resnet50-fresh", "backbone.fresh+head", 5),
        ("resnet8", "backbone.layer3+head", 0),  # not computed layer by layer
    ],
)
def test_layers_that_are_not_trained(name, train, count):
    made, trained = model(name), stage(name, train)
    set_trainable(made, trained)
    assert frozen_layers(made, trained) == count


def test_layers_whose_statistics_move_are_not_frozen():
    made = model("resnet18")
    for batch_norm, count in (("moving", 0), ("frozen", 5)):
        head_alone = stage("resnet18", "head", batch_norm=batch_norm)
        set_trainable(made, head_alone)
        assert frozen_layers(made, head_alone) == count


@pytest.mark.parametrize(("name", "train"), LAST.items())
def test_outputs_gradients_and_statistics_are_those_of_the_whole_network(name, train):
    made, trained = model(name).double(), stage(name, train)
    names = set_trainable(made, trained)
    other = deepcopy(made)
    for each in (made, other):
        set_modes(each, trained)
    images = torch.randn(11, 3, 64, 64, dtype=torch.float64)
    fast = FrozenLayersNetwork(made, frozen_layers(made, trained))
    outputs, expected = fast(images), other(images)
    assert torch.allclose(outputs, expected, atol=1e-9)
    for result in (outputs, expected):
        result.logsumexp(1).sum().backward()
    theirs = dict(other.named_parameters())
    for parameter in names:
        assert torch.allclose(names[parameter].grad, theirs[parameter].grad, atol=1e-8), parameter
    for (buffer, value), same in zip(made.named_buffers(), other.buffers(), strict=True):
        assert torch.allclose(value, same, atol=1e-10), buffer
    assert all(parameter.grad is None for key, parameter in made.named_parameters() if key not in names)


def test_weights_that_are_loaded_later_count():
    made, trained = model("resnet18").eval(), stage("resnet18", "backbone.layer4+head")
    set_trainable(made, trained)
    fast, images = FrozenLayersNetwork(made, 4), torch.randn(3, 3, 64, 64)
    before = fast.features(images)
    made.load_state_dict(
        {name: value * 1.1 if value.is_floating_point() else value for name, value in made.state_dict().items()}
    )
    assert not torch.allclose(fast.features(images), before)
    assert torch.allclose(fast.features(images), made.features(images), atol=1e-4 * float(before.detach().abs().max()))


def test_a_copy_that_was_made_in_an_evaluation_can_train():
    made, trained = model("resnet18"), stage("resnet18", "backbone.layer4+head")
    set_trainable(made, trained)
    fast, images = FrozenLayersNetwork(made, 4), torch.randn(3, 3, 64, 64)
    with torch.inference_mode():
        fast(images)
    fast(images).sum().backward()
    assert made.head.weight.grad is not None


def test_folding_does_not_depend_on_the_precision_of_steps():
    made, trained = model("resnet18"), stage("resnet18", "backbone.layer4+head")
    set_trainable(made, trained)
    fast = FrozenLayersNetwork(made, 4)
    with torch.autocast("cpu", torch.bfloat16):
        fast(torch.randn(3, 3, 64, 64))
    assert isinstance(fast.fast.bn1, nn.Identity)
    assert isinstance(fast.fast.layer4, nn.Identity)  # computed by the model itself


@pytest.mark.parametrize("name", ["efficientnet_lite0", "resnet18"])
def test_a_backbone_is_compiled_as_a_whole(name):
    backbone, images = create_backbone(name).eval(), torch.randn(2, 3, 32, 32)
    compiled = torch.compile(backbone, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(images), backbone(images), atol=1e-5)


FINE_TUNING = {
    "model": {"backbone": "resnet18", "width": 0.125},
    "stage1": {"train": "backbone.layer4+head", "epochs": 4, "mixup": 0.0},
    "stage2": {"epochs": 1},
}


def session_of(settings):
    recipe = small_recipe({**FINE_TUNING, **settings})
    session = Session(recipe, open_dataset(recipe.data.spec), torch.device("cpu"))
    start_stage(session, "stage1")
    make_parts(session, "stage1")
    return session


def test_a_run_computes_them_fast_in_eager_steps_on_images():
    assert session_of({}).frozen_layers.layers == 4
    assert session_of({"engine": {"executor": "compiled"}}).frozen_layers is None
    assert session_of({"stage1": {"train": "head", "views": 1, "epochs": 1, "mixup": 0.0}}).frozen_layers is None
    assert session_of({"stage1": {"train": "all", "epochs": 1, "mixup": 0.0}}).frozen_layers is None
    assert session_of({"stage1": {**FINE_TUNING["stage1"], "sam": 0.1}}).frozen_layers is None
    assert session_of({"engine": {"accumulate": 2}}).frozen_layers is None


def test_a_run_that_was_broken_off_ends_with_the_same_bits(tmp_path):
    recipe = small_recipe(FINE_TUNING)
    run(tmp_path / "whole", recipe)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(2))
    run(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")
