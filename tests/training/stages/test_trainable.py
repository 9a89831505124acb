"""Which parts of a model a stage may change."""

import pytest

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.errors import UsageError
from tailcloud.recipe import Stage
from tailcloud.training.stages.trainable import set_modes, set_trainable


@pytest.fixture(params=["cosine", "linear"])
def model(request):
    return build_classifier(Architecture("resnet8", request.param, 0.25, 1, 5), 0)


def stage(**settings):
    return Stage.model_validate({"epochs": 1, "loss": "ce", **settings})


def test_a_stage_for_the_head_freezes_the_backbone_and_the_next_one_may_free_it(model):
    head = {name for name, _ in model.named_parameters() if name.startswith("head.")}
    assert set(set_trainable(model, stage(train="head"))) == head
    assert {name for name, p in model.named_parameters() if p.requires_grad} == head
    assert set(set_trainable(model, stage(train="all"))) == {name for name, _ in model.named_parameters()}
    assert all(p.requires_grad for p in model.parameters())


def test_trainable_parameters_are_the_models_own(model):
    own = dict(model.named_parameters())
    assert all(own[name] is parameter for name, parameter in set_trainable(model, stage()).items())


def test_frozen_statistics_keep_the_backbone_in_evaluation_mode_and_nothing_else(model):
    model.eval()
    set_modes(model, stage(batch_norm="frozen"))
    assert not any(module.training for module in model.backbone.modules())
    assert all(module.training for module in model.head.modules())
    assert model.training


def test_moving_statistics_train_everything(model):
    model.eval()
    set_modes(model, stage(batch_norm="moving"))
    assert all(module.training for module in model.modules())


def test_a_part_of_the_head_can_be_trained_alone(model):
    assert set(set_trainable(model, stage(train="head.weight"))) == {"head.weight"}
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {"head.weight"}


def test_a_part_that_is_not_there_is_a_sentence(model):
    with pytest.raises(UsageError, match=r'train = "head.scale" is not a part of this model; its head has head.weight'):
        set_trainable(model, stage(train="head.scale"))
    assert not set_trainable(model, stage(train="head.scale", epochs=0))


def test_parts_of_the_backbone_can_be_trained_with_the_head(model):
    trained = set(set_trainable(model, stage(train="backbone.layer3+head")))
    expected = {n for n, _ in model.named_parameters() if n.startswith(("backbone.layer3.", "head."))}
    assert trained == expected
    assert {name for name, p in model.named_parameters() if p.requires_grad} == expected


def test_the_backbone_around_trained_parts_keeps_its_statistics(model):
    set_modes(model, stage(train="backbone.layer3+head"))
    moving = {name for name, module in model.named_modules() if module.training}
    assert all(name in {"", "head"} or name.startswith(("backbone.layer3", "head.")) for name in moving)
    assert {"backbone.layer3", "backbone.layer3.0.bn1", "head"} <= moving
    set_modes(model, stage(train="backbone.layer3+head", batch_norm="frozen"))
    assert not any(module.training for module in model.backbone.modules())


def test_a_backbone_alone_can_be_trained(model):
    assert all(name.startswith("backbone.") for name in set_trainable(model, stage(train="backbone")))
    set_modes(model, stage(train="backbone"))
    assert all(module.training for module in model.modules())
