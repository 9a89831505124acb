"""Runs of several experts: same bits after a break and in a fleet; exported, loaded, re-balanced, distilled."""

import numpy as np
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

import tailcloud
from helpers.runs import Interrupted, StopAfter, Watcher, losses_of, run, same_weights, small_recipe
from tailcloud.calibration.priors import prior_name
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.launch.like_run import recipe_like
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder

EXPERTS = {"model": {"experts": 3}, "stage1": {"objective": "experts"}}
CENTRED = {"stage1": {"objective": {"taus": [-1.0, 0.0, 1.0]}}}


def invoke(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def recipe_of(name, *settings):
    return small_recipe(EXPERTS, *([CENTRED] if name == "gcl" else []), *settings, name=f"digits-lt/{name}")


@pytest.fixture(scope="module", params=["ce", "gcl"])
def finished(request, tmp_path_factory):
    """A finished run of three experts: its method, folder and result."""
    folder = tmp_path_factory.mktemp("experts") / "run"
    return request.param, folder, run(folder, recipe_of(request.param))


def test_a_run_that_was_broken_off_ends_with_the_same_bits(tmp_path, finished):
    method, folder, _ = finished
    for epochs in (1, 2) if method == "ce" else (2, 4):
        with pytest.raises(Interrupted):
            run(tmp_path / str(epochs), recipe_of(method), StopAfter(epochs))
        run(tmp_path / str(epochs), recipe_of(method))
        assert same_weights(tmp_path / str(epochs), folder)


def test_a_fleet_of_two_ends_with_the_bits_of_each_run_alone(tmp_path):
    words = ["train", "digits-lt/ce", "--device", "cpu", "--set", "model.width=0.25", "--set", "stage1.epochs=2"]
    words += ["--set", "model.experts=3", "--set", "stage1.objective=experts", "--set", "engine.threads=1"]
    assert invoke(*words, "--seed", 1, "--out", tmp_path / "alone").exit_code == 0
    assert invoke(*words, "--seed", 0, "--seed", 1, "--out", tmp_path / "fleet").exit_code == 0
    assert same_weights(tmp_path / "alone", tmp_path / "fleet" / "seed1")


def test_the_result_counts_all_experts_and_says_which_frequencies_they_assume(finished):
    method, folder, result = finished
    model = tailcloud.load(folder)
    assert result.model.backbone == "resnet8-3-experts"
    assert result.model.parameters == sum(parameter.numel() for parameter in model.parameters())
    plain = run(folder.with_name("plain"), small_recipe(name=f"digits-lt/{method}"))
    assert 2.5 < result.model.parameters / plain.model.parameters < 3
    assert 1.5 < result.model.flops / plain.model.flops < 3
    assert prior_name(model.prior, result.dataset.counts) == "uniform"


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ([], ["[-1.0,0.0,1.0]"]),
        ([{"model": {"experts": 2}, "stage1": {"objective": {"taus": [0.0, 2.0]}}}], ["[-1.0,1.0]"]),
        ([CENTRED], []),
        ([{"stage1": {"loss": "ce"}}], []),
    ],
    ids=["balanced twice", "two experts", "τ of mean 0", "cross-entropy"],
)
def test_experts_that_balance_classes_twice_are_a_remark(tmp_path, settings, advice):
    small = {"model": {"width": 0.25}, "stage1": {"epochs": 1}}
    result = run(tmp_path / "run", load_recipe("digits-lt/logit-adjust", [small, EXPERTS, *settings]))
    said = [remark for remark in result.remarks if "once more: the mean logits take 9 for the most frequent" in remark]
    assert [remark.partition("--set stage1.objective.taus=")[2] for remark in said] == advice


def test_a_loaded_model_predicts_the_mean_of_the_experts(finished):
    _, folder, result = finished
    model, test = tailcloud.load(folder), open_dataset("digits-lt").test
    images = model.transform(torch.from_numpy(test.images))
    with torch.inference_mode():
        each = model.classifier.head.each(model.classifier.features(images))
        torch.testing.assert_close(model(images), model.scale * (each[0] + each[1] + each[2]) / 3)
        right = (model(images).argmax(dim=1).numpy() == test.labels).mean()
    assert 100 * right == pytest.approx(result.top1.last)
    assert not torch.allclose(each[0], each[1])


@pytest.mark.usefixtures("one_onnx_registry")
def test_an_exported_model_says_the_same(tmp_path, finished):
    _, folder, _ = finished
    out = tmp_path / "model.onnx"
    result = invoke("export", folder, "--to", "onnx", "--out", out)
    assert result.exit_code == 0, result.output
    images = open_dataset("digits-lt").test.images[:7]
    found = onnxruntime.InferenceSession(out).run(["probabilities"], {"images": images})[0]
    expected = tailcloud.load(folder).predict_proba(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("second", ["tau-norm", "logit-adjust", "ncm", "crt"])
def test_it_can_be_rebalanced(tmp_path, finished, second):
    _, folder, _ = finished
    epochs = ["--set", "stage2.epochs=1"] if second == "crt" else []
    result = invoke("rebalance", folder, "--with", second, "--out", tmp_path / "run", *epochs)
    assert result.exit_code == 0, result.output
    assert RunFolder(tmp_path / "run").result().model.backbone == "resnet8-3-experts"


@pytest.mark.parametrize("second", ["lws", "disalign", "mislas"])
def test_a_second_stage_that_trains_parts_of_a_head_is_refused(tmp_path, finished, second):
    _, folder, _ = finished
    error = invoke("rebalance", folder, "--with", second, "--out", tmp_path / "run").exception
    assert "is not a part of its model; its head has head.experts.0." in str(error)
    assert not (tmp_path / "run").exists()


def test_experts_teach_a_single_network(tmp_path, finished):
    _, folder, _ = finished
    recipe = small_recipe({"distill": {"teachers": [str(folder)]}}, name="digits-lt/gcl")
    watcher = Watcher()
    result = run(tmp_path / "student", recipe, watcher)
    assert watcher.notes == []
    assert result.model.backbone == "resnet8"
    assert result.model.teachers[0].run == str(folder)


def test_another_method_like_a_run_of_experts_has_one_again(finished):
    method, folder, _ = finished
    other = recipe_like(RunFolder(folder).recipe(), "logit-adjust")
    assert (other.model.backbone, other.model.experts) == ("resnet8", 1)
    assert recipe_like(RunFolder(folder).recipe(), method) == RunFolder(folder).recipe()


def test_micro_batches_train_experts_as_whole_batches_do(tmp_path):
    losses = []
    for accumulate in (1, 3):
        watcher, settings = Watcher(), {"stage1": {"batch_norm": "frozen", "mixup": 1.0}}
        run(tmp_path / str(accumulate), recipe_of("ce", settings, {"engine": {"accumulate": accumulate}}), watcher)
        losses.append([line["loss"] for line in watcher.lines])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_a_stage_on_features_of_all_experts_trains(tmp_path):
    settings = {"stage2": {"views": 2, "mixup": 0.0, "objective": {"name": "experts", "taus": [-1.0, 0.0, 1.0]}}}
    assert run(tmp_path / "run", recipe_of("gcl", settings)).stages[1].epochs == 2


@pytest.mark.slow
def test_compiled_steps_do_what_eager_ones_do(check_compiled):
    check_compiled(lambda engine: recipe_of("ce", {"stage1": {"batch": 400}}, engine))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_trains_experts_as_eager_steps_do(tmp_path):
    losses = []
    for executor in ("eager", "graphed"):
        recipe = recipe_of("gcl", {"engine": {"executor": executor}})
        losses.append(losses_of(tmp_path / executor, recipe, "cuda"))
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


def test_objectives_of_later_stages_may_be_plain():
    recipe = load_recipe("digits-lt/gcl", [EXPERTS, CENTRED])
    assert recipe.stage2.objective.name == "classify"
