"""Which parts of a model a stage may change."""

import pytest
import torch

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.recipe import Stage
from tailcloud.stages.scope import open_stage, set_modes, set_trainable


@pytest.fixture(params=["cosine", "linear"])
def model(request):
    return build_classifier(Architecture("resnet8", request.param, 0.25, 1, 5), 0)


def stage(**settings):
    return Stage.model_validate({"epochs": 1, "loss": "ce", **settings})


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


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


def test_a_fresh_head_is_new_and_the_backbone_as_it_was(model):
    before = weights(model)
    open_stage(model, stage(head="fresh"), seed=0)
    assert changed(before, weights(model)) == {name for name in before if name.startswith("head.")}


def test_a_fresh_head_follows_from_the_seed_alone(model):
    open_stage(model, stage(head="fresh"), seed=3)
    first = weights(model)
    torch.manual_seed(99)
    open_stage(model, stage(head="fresh"), seed=3)
    assert not changed(first, weights(model))
    open_stage(model, stage(head="fresh"), seed=4)
    assert "head.weight" in changed(first, weights(model))


def test_a_kept_head_stays(model):
    before = weights(model)
    open_stage(model, stage(head="keep"), seed=0)
    assert not changed(before, weights(model))
