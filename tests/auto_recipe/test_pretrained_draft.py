from dataclasses import replace

import pytest
import torch

from helpers.photos import photos
from tailcloud.auto_recipe.candidates import Candidate
from tailcloud.auto_recipe.choice import unique, usable
from tailcloud.auto_recipe.flip_test import FlipTest
from tailcloud.auto_recipe.pretrained_draft import DEFAULT_METHOD, HEAD_METHODS, PretrainedDraft, last_layers
from tailcloud.backbones import BACKBONES
from tailcloud.classifier import meta_backbone
from tailcloud.errors import UsageError
from tailcloud.recipe.library import shipped

CPU = torch.device("cpu")
DATA = photos([40, 30, 10, 2])
FLIPS = FlipTest(82, 4, 20, 20, 0)
PARTS = ("all", "last", "head")


def draft(part, *asked, method=DEFAULT_METHOD, backbone="efficientnet_lite0"):
    return PretrainedDraft(DATA, Candidate(128, backbone, "pretrained", part), CPU, FLIPS, asked, method)


def drafts(*asked, method=None):
    return [draft(part, *asked, method=method) for part in PARTS]


@pytest.mark.parametrize("method", [name for name in shipped("methods") if name != "bbn"])
def test_every_method_that_a_user_may_name_works_with_a_part_of_the_network(method):
    kept = usable(drafts({"method": method}))
    on_images = {"hybrid-sc", "hybrid-psc", "bcl", "proco"}  # they compare views of an image
    assert [each.candidate.part for each in kept] == (["all", "last"] if method in on_images else list(PARTS))
    for each in kept:
        recipe = each.recipe(9)
        assert (recipe.method, recipe.model.weights, recipe.data.size) == (method, "pretrained", 128)
        for stage in recipe.stages.values():
            frozen = stage.trains_only_head
            assert stage.views == (1 if frozen else 0)
            assert frozen or not each.trains_head_alone  # nothing trains the network of a head on features
            assert stage.train == recipe.stage1.train or frozen


def test_two_branches_do_not_fit_the_weights_and_the_error_says_so():
    with pytest.raises(UsageError, match=r'model.branches = 2 works with ResNets, not with .* "efficientnet_lite0"'):
        usable(drafts({"method": "bbn"}))


def test_settings_that_need_images_leave_out_the_head_on_features():
    asked = {"stage1": {"cutmix": 1.0}}
    assert [each.candidate.part for each in usable(drafts(asked, method=DEFAULT_METHOD))] == ["all", "last"]


@pytest.mark.parametrize("method", [DEFAULT_METHOD, None])
def test_on_features_logit_adjustment_works_on_cosines(method):
    asked = [] if method else [{"method": "logit-adjust"}]
    recipe = draft("head", *asked, method=method).recipe(9)
    assert (recipe.model.head, recipe.stage1.loss.name, recipe.stage1.loss.options["scale"]) == (
        "cosine",
        "logit-adjust",
        30.0,
    )
    assert draft("all", *asked, method=method).recipe(9).model.head == "linear"


@pytest.mark.parametrize("asked", [{"model": {"head": "linear"}}, {"stage1": {"loss": "ce"}}])
def test_a_head_or_a_loss_that_is_asked_for_keeps_its_own_scale(asked):
    recipe = draft("head", asked).recipe(9)
    assert (recipe.model.head, recipe.stage1.loss.options.get("scale", 1.0)) == ("linear", 1.0)


def test_class_means_need_no_first_stage_on_features_and_one_with_the_network():
    for asked, method in ([{"method": "ncm"}], None), ([], "ncm"):
        assert draft("head", *asked, method=method).recipe(9).stage1.epochs == 0
        assert draft("all", *asked, method=method).recipe(9).stage1.epochs == 9


@pytest.mark.parametrize("method", HEAD_METHODS)
def test_heads_that_are_compared_train_on_the_same_features(method):
    recipe, default = draft("head", method=method).recipe(9), draft("head").recipe(9)
    assert all(stage.views == 1 for stage in recipe.stages.values())
    assert (recipe.augment, recipe.data, recipe.model.backbone) == (
        default.augment,
        default.data,
        default.model.backbone,
    )


def test_what_the_user_sets_replaces_what_is_chosen():
    asked = {"stage1": {"lr": 0.5, "batch": 7, "epochs": 3}, "augment": {"flip": False}}
    for part in PARTS:
        recipe = draft(part, asked).recipe(9)
        assert (recipe.stage1.lr, recipe.stage1.batch, recipe.stage1.epochs, recipe.augment.flip) == (0.5, 7, 3, False)


def test_parts_that_are_the_same_because_of_an_override_are_tried_once():
    asked = {"stage1": {"train": "backbone+head"}}
    assert [each.candidate.part for each in unique(usable(drafts(asked)))] == ["all"]


@pytest.mark.parametrize("backbone", sorted(name for name in BACKBONES if "-" not in name))
def test_the_last_layers_of_every_backbone_are_among_its_parameters(backbone):
    names = [f"backbone.{name}" for name, _ in meta_backbone(backbone).named_parameters()]
    for part in last_layers(backbone):
        assert any(name.startswith(part) for name in names)
    assert not all(name.startswith(tuple(last_layers(backbone))) for name in names)


def test_epochs_of_a_head_are_some_thousand_steps_however_many_images():
    few, many = (
        draft("head"),
        PretrainedDraft(
            photos([6000, 3000], side=8), Candidate(128, "efficientnet_lite0", "pretrained", "head"), CPU, FLIPS, ()
        ),
    )
    assert (few.default_epochs, few.head_batch) == (200, 64)
    assert (many.default_epochs, many.head_batch) == (39, 256)  # 31 steps each on 8,100 images
    assert draft("all").default_epochs == 30
    assert replace(many, candidate=draft("all").candidate).default_epochs == 24  # 3,000 steps of 64 images


def test_the_reasons_name_weights_size_and_part():
    for part, sentence in (
        ("all", "The whole network"),
        ("last", "The last 3 layers"),
        ("head", "features are computed"),
    ):
        reasons = " ".join(draft(part).reasons())
        assert "EfficientNet-Lite0, trained on ImageNet" in reasons
        assert "Apache-2.0" in reasons
        assert "Images are read at 128 × 128 pixels." in reasons
        assert sentence in reasons


@pytest.mark.parametrize(
    ("part", "hits", "flipped", "said"),
    [
        (
            "all",
            98,
            93,
            "Images are flipped left to right at random: nearest means recognise 98 of 100 as they are, and s",
        ),
        ("all", 98, 10, "Images are not flipped: nearest means recognise 98 of 100 as they are, and only 10 flipped."),
        (
            "all",
            9,
            9,
            "Images are flipped left to right at random: usual for colour images, and nearest means recognise",
        ),
        ("head", 98, 93, "Images are not flipped: features are those of each as it is."),
    ],
)
def test_the_reasons_say_whether_images_are_flipped(part, hits, flipped, said):
    tested = replace(draft(part), flips=FlipTest(100, 4, hits, flipped, hits - flipped))
    assert said in " ".join(tested.reasons())
