"""Experts on a shared trunk: features of each, parameters as published, names, and what is refused."""

import pytest
import torch

from tailcloud.backbones import check_backbone, create_backbone, plain_name
from tailcloud.backbones.experts import experts_of, with_experts
from tailcloud.classifier import Architecture, build_classifier, cost
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe


@pytest.mark.parametrize(("name", "experts"), [("resnet8", 2), ("resnet20", 3)])
def test_features_are_those_of_plain_networks_that_share_the_first_stage(name, experts):
    torch.manual_seed(0)
    backbone = create_backbone(with_experts(name, experts), channels=1, width=0.5).double().eval()
    images, found = torch.randn(5, 1, 12, 10, dtype=torch.float64), []
    for branch in backbone.branches:
        plain = create_backbone(name, channels=1, width=0.5).double().eval()
        for part in ("conv1", "bn1", "layer1"):
            getattr(plain, part).load_state_dict(getattr(backbone, part).state_dict())
        plain.layer2.load_state_dict(branch.layer2.state_dict())
        plain.layer3.load_state_dict(branch.layer3.state_dict())
        found.append(plain(images))
    torch.testing.assert_close(backbone(images), torch.cat(found, dim=1))
    assert backbone.features == sum(part.shape[1] for part in found)
    assert not torch.allclose(found[0], found[1])


def test_the_first_expert_starts_as_the_plain_network():
    plain, several = (
        build_classifier(Architecture(name, "linear", 1.0, 3, 10), 0).backbone
        for name in ("resnet20", "resnet20-3-experts")
    )
    assert torch.equal(plain.layer3[0].conv1.weight, several.branches[0].layer3[0].conv1.weight)
    assert torch.equal(plain.layer1[0].conv1.weight, several.layer1[0].conv1.weight)


def test_all_experts_start_kaiming_normal():
    backbone = build_classifier(Architecture("resnet32-3-experts", "linear", 1.0, 3, 10), 0).backbone
    for branch in backbone.branches:
        assert branch.layer3[1].conv1.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)


@pytest.mark.parametrize(("classes", "published"), [(10, 1.34), (100, 1.36)])
def test_parameters_and_flops_count_all_experts(classes, published):
    one, three = (
        cost(Architecture(name, "linear", 1.0, 3, classes), 32, 32) for name in ("resnet32", "resnet32-3-experts")
    )
    stem = 3 * 16 * 9 + 2 * 16 + 5 * 2 * (16 * 16 * 9 + 2 * 16)
    assert three.parameters == 3 * one.parameters - 2 * stem
    assert three.parameters / 1e6 == pytest.approx(published, abs=0.005)
    shared = 2 * 32 * 32 * (3 * 16 * 9 + 5 * 2 * 16 * 16 * 9)
    assert three.flops == 3 * one.flops - 2 * shared


def test_layers_cover_every_parameter_once():
    backbone = create_backbone("resnet8-3-experts")
    parts = [part for layer in backbone.layers() for part in layer]
    for name, _ in backbone.named_parameters():
        assert sum(f"{name}.".startswith(f"{part}.") for part in parts) == 1


def test_the_name_follows_from_the_number():
    assert with_experts("resnet32", 1) == "resnet32"
    assert with_experts("resnet32", 3) == with_experts(with_experts("resnet32", 2), 3) == "resnet32-3-experts"
    assert [experts_of(name) for name in ("resnet32", "resnet32-3-experts", "resnet8-12-experts")] == [1, 3, 12]
    assert plain_name("resnet32-3-experts") == "resnet32"


@pytest.mark.parametrize("name", ["resnet32-1-experts", "resnet32-0-experts", "resnet32--experts"])
def test_fewer_than_two_experts_are_no_name(name):
    with pytest.raises(UsageError, match="there is no backbone"):
        check_backbone(name)


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("imagenet-lt/ce", {"model": {"experts": 3}}, 'experts work with resnet8, .*, not with "resnet50"'),
        ("digits-lt/bbn", {"model": {"experts": 3}}, "model.branches = 2 and model.experts = 3 exclude"),
        ("digits-lt/ce", {"model": {"backbone": "resnet8-3-experts"}}, "has 3 experts, and model.experts = 1"),
        ("digits-lt/ce", {"model": {"experts": 0}}, "model.experts = 0"),
        ("digits-lt/ce", {"model": {"experts": 3}, "stage1": {"objective": "memory"}}, "works with the head"),
        (
            "digits-lt/gcl-feature-noise",
            {"model": {"experts": 3}},
            '"feature-noise" does not work with model.experts = 3',
        ),
        ("digits-lt/ce", {"stage1": {"objective": "experts"}}, "has 3 taus, and model.experts = 1"),
        (
            "digits-lt/ce",
            {"model": {"experts": 2}, "stage1": {"objective": "experts"}},
            "has 3 taus, and model.experts = 2; set model.experts = 3",
        ),
        ("digits-lt/ce", {"stage1": {"objective": {"name": "experts", "taus": [1.0]}}}, "must be two or more"),
        (
            "digits-lt/gcl-angular",
            {"model": {"experts": 3}, "stage1": {"objective": "experts"}},
            "takes outputs as angles; set all of them to 0",
        ),
        (
            "digits-lt/lws",
            {"model": {"experts": 2}},
            r'stage2.train = "head.scale" is not a part of its model; its head has head.experts.0.scale',
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_recipe_is_read(recipe, settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe(recipe, [settings])


def test_a_resolved_recipe_is_the_same_recipe():
    recipe = load_recipe("cifar100-lt/gcl", [{"model": {"experts": 3}}])
    assert recipe.model.backbone == "resnet32-3-experts"
    assert load_recipe("cifar100-lt/gcl", [{"model": recipe.model.model_dump(exclude_none=True)}]) == recipe
