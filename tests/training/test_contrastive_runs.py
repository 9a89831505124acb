"""Runs of BCL and ProCo: views of their own augmentation, resume within an epoch, fleets, and the finished model."""

from functools import partial

import pytest
import torch
from safetensors.torch import load_file

import tailcloud
from helpers.runs import SMALL, Interrupted, Watcher, run, same_weights
from tailcloud.classifier import Architecture, cost
from tailcloud.data import open_dataset
from tailcloud.data.augment import Augment
from tailcloud.errors import UsageError
from tailcloud.heads import HEADS, inference_kind
from tailcloud.launch.fleet import train_side_by_side
from tailcloud.recipe import head_kinds, load_recipe
from tailcloud.runs.checkpoint import load_checkpoint
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.run_cost import estimate
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts, view_names

METHODS = ["bcl", "proco"]
STEPS = 4  # an epoch of 331 images in batches of 100
SHORT = {"model": {"width": 0.25}, "stage1": {"epochs": 3, "batch": 100}, "engine": {**SMALL["engine"], "threads": 1}}
VIEWS = {"view_augment": {"crop_area": [0.5, 1.0], "color_jitter": [0.4, 0.4, 0.4], "color_jitter_share": 0.8}}


def short_recipe(method, *settings):
    return load_recipe(f"digits-lt/{method}", [SHORT, *settings])


def trained(folder, method, observer):
    run(folder, short_recipe(method), observer)
    return {"ok": True}


def last_checkpoint(folder):
    return load_checkpoint(sorted((folder / "checkpoint").iterdir())[-1])


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [2, STEPS + 1, STEPS + 3])
def test_a_run_that_dies_within_an_epoch_ends_where_it_would_have_ended(tmp_path, monkeypatch, method, steps):
    recipe = short_recipe(method, {"engine": {"checkpoint_seconds": 1e-9, "executor": "eager"}}, VIEWS)
    run(tmp_path / "whole", recipe)
    whole, left = EagerExecutor.train_step, [steps]

    def train_step(executor, micro_batches):
        left[0] -= 1
        if left[0] < 0:
            raise Interrupted
        return whole(executor, micro_batches)

    with monkeypatch.context() as patch:
        patch.setattr(EagerExecutor, "train_step", train_step)
        with pytest.raises(Interrupted):
            run(tmp_path / "broken", recipe)
    within = "_" in sorted((tmp_path / "broken" / "checkpoint").iterdir())[-1].name
    assert within == (steps % STEPS > 0)
    run(tmp_path / "broken", recipe)
    assert same_weights(tmp_path / "broken", tmp_path / "whole")
    broken, undisturbed = (last_checkpoint(tmp_path / name).group("model") for name in ("broken", "whole"))
    assert all(torch.equal(broken[name], undisturbed[name]) for name in undisturbed)


@pytest.mark.parametrize("method", METHODS)
def test_two_runs_side_by_side_have_the_bits_of_one_alone(tmp_path, method):
    run(tmp_path / "alone", short_recipe(method))
    names = ["first", "second"]
    jobs = [partial(trained, tmp_path / name, method) for name in names]
    assert train_side_by_side(jobs, [Watcher(), Watcher()]) == [{"ok": True}] * 2
    assert all(same_weights(tmp_path / "alone", tmp_path / name) for name in names)


@pytest.mark.parametrize("method", METHODS)
def test_the_finished_model_has_no_part_that_only_training_needs(tmp_path, method):
    result = run(tmp_path / "run", short_recipe(method))
    plain = run(tmp_path / "plain", load_recipe("digits-lt/ce", [SHORT, {"stage1": {"epochs": 1}}]))
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert weights.keys() == load_file(tmp_path / "plain" / "model.safetensors").keys()
    assert (result.model.parameters, result.model.flops) == (plain.model.parameters, plain.model.flops)
    assert result.model.head == "linear"
    saved = last_checkpoint(tmp_path / "run").group("model")
    assert {name for name in saved if name.startswith("head.projection")}
    assert all(torch.equal(saved[name], value) for name, value in weights.items())
    loaded = tailcloud.load(tmp_path / "run")
    test = open_dataset("digits-lt").test
    likely = loaded.predict_proba(torch.from_numpy(test.images)).argmax(dim=1)
    assert 100 * (likely == torch.from_numpy(test.labels)).double().mean().item() == pytest.approx(result.top1.last)


@pytest.mark.parametrize("method", METHODS)
def test_a_resnet32_for_cifar_has_half_a_million_parameters_at_inference(method):
    made = Architecture("resnet32", method, 1.0, 3, 100)
    found, linear = (
        cost(each, 32, 32) for each in (made.at_inference, Architecture("resnet32", "linear", 1.0, 3, 100))
    )
    assert found == linear
    assert 460_000 < found.parameters < 475_000 < cost(made, 32, 32).parameters


def test_an_estimate_counts_the_parameters_of_the_finished_model_and_the_memory_of_the_trained_one():
    data = open_dataset("digits-lt")
    bcl, plain = (estimate(load_recipe(f"digits-lt/{method}"), data) for method in ("bcl", "ce"))
    assert (bcl.parameters, bcl.flops) == (plain.parameters, plain.flops)
    assert bcl.memory > plain.memory


def test_the_estimates_of_an_epoch_have_every_image_twice(tmp_path):
    """331 images in four batches: the sums are handed on once per epoch, whatever the batches are."""
    run(tmp_path / "run", short_recipe("proco"))
    saved, counts = last_checkpoint(tmp_path / "run").group("model"), open_dataset("digits-lt").profile.counts
    for epoch in ("", "last_"):
        assert saved[f"head.{epoch}numbers"].tolist() == (2 * counts).tolist()
    assert not torch.equal(saved["head.sums"], saved["head.last_sums"])


@pytest.mark.parametrize("method", ["bcl+crt", "proco+lws", "bcl+tau-norm", "proco+disalign", "bcl+ncm"])
def test_later_stages_start_from_the_classifier_alone(tmp_path, method):
    assert head_kinds(load_recipe(f"digits-lt/{method}"))["stage1"] == method.partition("+")[0]
    short = {"stage1": {"epochs": 1, "batch": 100}, "stage2": {"epochs": 1}, "selection": {"pick": "last"}}
    if method.partition("+")[2] in {"tau-norm", "ncm"}:
        short.pop("stage2")
    recipe = load_recipe(f"digits-lt/{method}", [{"model": {"width": 0.25}, "engine": SHORT["engine"]}, short])
    result = run(tmp_path / "run", recipe)
    assert [stage.name for stage in result.stages] == ["stage1", "stage2"]
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert not {name for name in weights if "projection" in name or "sums" in name}


def test_only_heads_with_parts_for_training_leave_another_one():
    changed = {name: inference_kind(name) for name in HEADS if inference_kind(name) != name}
    assert changed == {"bcl": "linear", "bcl-cosine": "cosine", "proco": "linear", "proco-cosine": "cosine"}
    assert all(issubclass(HEADS[trained], HEADS[left]) for trained, left in changed.items())


def batches_of(recipe):
    session = Session(recipe, open_dataset(recipe.data.spec), torch.device("cpu"))
    return list(make_parts(session, "stage1").loader.epoch(0))


def test_further_views_have_the_augmentation_of_their_own_table():
    still = {"augment": {"crop_padding": 0}}
    plain = batches_of(short_recipe("bcl", still))
    own = batches_of(short_recipe("bcl", still, VIEWS))
    for same, varied in zip(plain, own, strict=True):
        assert torch.equal(same.images, varied.images)
        assert all(torch.equal(view, same.images) for view in same.views)  # as [augment], which changes nothing
        first, second = varied.views
        assert not torch.equal(first, varied.images)
        assert not torch.equal(first, second)
        assert first.shape == varied.images.shape


def test_the_table_is_in_the_resolved_recipe_only_where_it_is_set():
    assert "view_augment" not in load_recipe("cifar100-lt/gcl").to_toml()
    recipe = load_recipe("cifar100-lt/proco")
    assert recipe.view_augment == Augment(
        crop_area=[0.08, 1.0],
        flip=True,
        color_jitter=[0.4, 0.4, 0.4],
        hue_jitter=0.1,
        color_jitter_share=0.8,
        random_grayscale=0.2,
    )
    assert (recipe.augment.auto_augment, recipe.augment.cutout, recipe.augment.crop_padding) == ("cifar", 16, 4)


def test_published_settings():
    bcl, proco = (load_recipe(f"cifar100-lt/{method}").stage1 for method in METHODS)
    assert (bcl.batch, bcl.lr, bcl.weight_decay) == (256, 0.15, 5e-4)
    assert (proco.batch, proco.lr, proco.weight_decay) == (256, 0.3, 2e-4)
    assert bcl.objective.options == {"classify_weight": 2.0, "contrast_weight": 0.6, "temperature": 0.1}
    assert proco.objective.options == {"contrast_weight": 1.0, "temperature": 0.1}
    assert bcl.loss == proco.loss == load_recipe("cifar100-lt/logit-adjust").stage1.loss


def test_names_of_the_draws_of_further_views():
    assert [view_names(number) for number in (0, 1, 3)] == [
        [],
        ["second views"],
        ["second views", "views 3", "views 4"],
    ]


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("ce", VIEWS, r"\[view_augment\] is for objectives that compare views of an image"),
        (
            "bcl",
            {"view_augment": {"crop_area": [0.1, 1.0], "crop_padding": 2}},
            "view_augment.crop_area and view_augment.crop_padding = 2 are two ways to crop; set view_augment.crop_pad",
        ),
        ("bcl", {"view_augment": {"rand_augment_level": 3}}, "set view_augment.rand_augment, for example 2"),
        ("bcl", {"view_augment": {"cut_out": 3}}, 'did you mean "view_augment.cutout"'),
        ("bcl", {"model": {"head": "linear"}}, 'works with the head "bcl" or "bcl-cosine", not with "linear"'),
        ("proco", {"model": {"head": "bcl"}}, 'works with the head "proco" or "proco-cosine", not with "bcl"'),
        ("bcl", {"stage1": {"second_sampler": "cb"}}, "does not use stage1.second_sampler"),
        ("bcl", {"stage1": {"objective": {"temperature": 0.0}}}, "temperature"),
    ],
)
def test_what_does_not_fit_together_is_said(method, settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe(f"digits-lt/{method}", [settings])


PATCHES = {"cutmix": 1.0, "cutmix_sampler": "cb"}


@pytest.mark.parametrize("mixing", [{"mixup": 0.5}, {"cutmix": 1.0}, PATCHES], ids=["mixup", "cutmix", "balanced"])
@pytest.mark.parametrize("method", METHODS)
def test_only_the_view_that_is_classified_is_mixed(method, mixing):
    always = {"cutmix_probability": 1.0} if "cutmix" in mixing else {}
    pairs = zip(
        batches_of(short_recipe(method, {"stage1": mixing | always})), batches_of(short_recipe(method)), strict=True
    )
    same = []
    for mixed, plain in pairs:
        assert (mixed.other is None, plain.other is None) == (False, True)
        assert all(torch.equal(*views) for views in zip(mixed.views, plain.views, strict=True))
        same.append(torch.equal(mixed.images, plain.images))
    assert not all(same)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_clouds_ends_with_a_cosine_classifier(tmp_path, method):
    clouds = {"model": {"head": f"{method}-cosine"}, "stage1": {"loss": {"name": "gcl", "scale": 30.0, "noise": 0.5}}}
    result = run(tmp_path, short_recipe(method, clouds))
    assert result.model.head == "cosine"
    assert set(load_file(tmp_path / "model.safetensors")) & {"head.weight", "head.bias"} == {"head.weight"}
    assert tailcloud.load(tmp_path).classifier.head.cosine
