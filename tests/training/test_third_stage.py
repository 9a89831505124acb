"""A third stage with tuned logit adjustment: resumed, forked, saved and loaded, refused without held-out images."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tailcloud
from helpers.oracles import calibration as oracle
from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights, small_recipe
from tailcloud.calibration import held_out
from tailcloud.calibration.logit_bias import fit_temperature_and_bias, log_likelihood_gain
from tailcloud.calibration.priors import prior_name
from tailcloud.calibration.run_calibration import check_held_out, implied_prior
from tailcloud.data import hold_out, open_dataset
from tailcloud.data.loaders.batch import Batch
from tailcloud.errors import UsageError
from tailcloud.head_transforms import tuned_logit_adjust
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import fork_run
from tailcloud.serving.evaluate import evaluate_run
from tailcloud.training.loop import train
from tailcloud.training.session import Session
from tailcloud.training.stages.start import held_out_before

TUNED = {"selection": {"split": 0.1}, "stage1": {"epochs": 6}, "stage3": {"head_transform": "tuned-logit-adjust"}}
PLAIN = {key: TUNED[key] for key in ("selection", "stage1")}


@pytest.fixture(autouse=True, scope="module")
def _any_bias_is_significant():
    """Runs as short as these tell little from 33 images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuned_logit_adjust, "SIGNIFICANT_GAIN", -1.0)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder, watcher = tmp_path_factory.mktemp("third") / "run", Watcher()
    return folder, run(folder, small_recipe(TUNED), watcher), watcher


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    folder = tmp_path_factory.mktemp("second") / "run"
    return folder, run(folder, small_recipe(PLAIN))


def test_the_stages_before_are_the_same_bits_and_the_third_is_measured_like_them(finished, without):
    folder, result, watcher = finished
    assert [stage.name for stage in result.stages] == ["stage1", "stage2", "stage3"]
    assert [name for name, _ in watcher.stages] == ["stage1", "stage2", "stage3"]
    for stage, other in zip(result.stages[:2], without[1].stages, strict=True):
        assert stage.per_class == other.per_class
    assert result.model.head == "scaled-cosine"
    assert result.per_class == result.stages[2].per_class
    before, after = (load_file(path / "model.safetensors") for path in (without[0], folder))
    assert torch.equal(after["head.inner.weight"], before["head.weight"])


def test_it_is_the_best_bias_on_the_held_out_images(finished, without):
    folder, result, watcher = finished
    data = hold_out(open_dataset("digits-lt"), 0.1)
    plain, tuned = (tailcloud.load(path) for path in (without[0], folder))
    images = plain.transform(torch.from_numpy(data.val.images))
    with torch.no_grad():
        logits, moved = (model(images).double().numpy() for model in (plain, tuned))
    held = [sum(data.val.labels == c) for c in range(10)]
    direction = np.log(plain.counts) - np.log(plain.counts).mean()
    shift = [math.log(n) - math.log(p) if n else -math.inf for n, p in zip(held, plain.prior, strict=True)]
    coefficient = (moved - logits) @ direction / (direction @ direction)
    np.testing.assert_allclose(moved - logits, np.outer(coefficient, direction), atol=1e-4)
    inverse, tau = oracle.best_bias(logits.tolist(), data.val.labels, direction, shift)
    searched = oracle.biased_nll(logits.tolist(), data.val.labels, inverse, tau, direction, shift)
    alone, _ = oracle.best_bias(moved.tolist(), data.val.labels, direction, shift, taus=(0.0, 0.0))
    assert oracle.nll(moved.tolist(), data.val.labels, 1 / alone, shift) <= searched + 1e-6
    (said,) = [note for note in watcher.notes if note.startswith("stage3: ")]
    assert f"{coefficient[0]:+.2f}·log n_j" in said
    assert said in result.remarks


def test_it_loads_and_is_evaluated_as_it_was(finished):
    folder, result, _ = finished
    again = evaluate_run(folder, open_dataset("digits-lt"), torch.device("cpu"))
    assert again["per_class"] == result.per_class
    assert json.loads((folder / "model.json").read_text())["prior"] == pytest.approx([0.1] * 10)


@pytest.mark.parametrize("epochs", [6, 7, 8], ids=["after stage 1", "in stage 2", "before stage 3"])
def test_a_run_that_was_broken_off_ends_with_the_same_bits(finished, tmp_path, epochs):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(TUNED), StopAfter(epochs))
    result = run(tmp_path / "run", small_recipe(TUNED))
    assert same_weights(tmp_path / "run", finished[0])
    assert result.stages[2].per_class == finished[1].stages[2].per_class


def test_a_third_stage_may_train_and_be_resumed(tmp_path):
    recipe = small_recipe(
        {**TUNED, "stage3": {"head_transform": "tuned-logit-adjust", "epochs": 2, "train": "head.scale"}}
    )
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(9))
    resumed, whole = (run(tmp_path / name, recipe) for name in ("broken", "whole"))
    assert same_weights(tmp_path / "broken", tmp_path / "whole")
    assert resumed.remarks == whole.remarks
    assert "·log n_j to the logits" in whole.remarks[-1]


def test_it_starts_from_the_first_stage_of_a_run_without_it(finished, without, tmp_path):
    child, recipe = RunFolder(tmp_path / "child"), small_recipe(TUNED)
    fork_run(RunFolder(without[0]), child, recipe, "tailcloud rebalance")
    train(recipe, hold_out(open_dataset("digits-lt"), 0.1), child, torch.device("cpu"), Watcher())
    assert same_weights(child.path, finished[0])


def test_it_follows_the_epoch_that_was_picked(tmp_path):
    recipe = small_recipe(TUNED, {"selection": {"pick": "best"}})
    result = run(tmp_path / "run", recipe)
    assert result.stages[1].picked.on == "val"
    assert result.stages[2].picked is None


@pytest.mark.parametrize("method", ["ce", "crt", "lws", "logit-adjust-posthoc"])
def test_it_works_behind_one_stage_or_two(tmp_path, method):
    short = {"model": {"width": 0.25}, "stage1": {"epochs": 2}, "selection": {"split": 0.1}}
    second = {"stage2": {"epochs": 1}} if method in {"crt", "lws"} else {}
    recipe = tailcloud.recipe.load_recipe(
        f"digits-lt/{method}", [short, second, {"stage3": {"head_transform": "tuned-logit-adjust"}}]
    )
    result = run(tmp_path / "run", recipe)
    assert result.stages[-1].name == "stage3"
    counts = result.dataset.counts
    expected = "train" if method == "ce" else "uniform"
    assert prior_name(implied_prior(recipe, counts), counts) == expected


def test_what_may_be_chance_changes_nothing_and_that_is_said(without, tmp_path, monkeypatch):
    monkeypatch.setattr(tuned_logit_adjust, "SIGNIFICANT_GAIN", 1.92)
    result = run(tmp_path / "run", small_recipe(TUNED))
    assert "No significant bias on 33 held-out images; logits unchanged." in result.remarks[-1]
    assert result.per_class == without[1].per_class


def test_classes_too_small_to_be_held_out_do_not_give_a_right_classifier_a_bias():
    """The smaller half of 200 classes has no held-out image; the logits are right for classes that are alike."""
    random, counts = np.random.default_rng(0), np.round(np.geomspace(60, 1, 200)).astype(int)
    labels = np.repeat(np.arange(200), np.where(counts >= 8, counts // 8, 0))
    means = random.standard_normal((200, 16))
    logits = (means[labels] + random.standard_normal((len(labels), 16))) @ means.T - (means**2).sum(axis=1) / 2
    batch = Batch(torch.from_numpy(logits), torch.from_numpy(labels))
    images = SimpleNamespace(labels=batch.target, in_order=lambda _: [batch])
    found = held_out.predict_held_out(torch.nn.Identity(), images, None, np.full(200, 1 / 200))
    frequent = np.log(counts) - np.log(counts).mean()
    temperature, tau = fit_temperature_and_bias(found.outputs, found.target, frequent, found.shift)
    assert abs(temperature * tau) < 0.1
    assert log_likelihood_gain(found.outputs, found.target, frequent, found.shift, temperature, tau) < 1.92


def test_too_few_held_out_images_change_nothing_and_that_is_said(without, tmp_path, monkeypatch):
    monkeypatch.setattr(held_out, "MIN_HELD_OUT_IMAGES", 1000)
    watcher = Watcher()
    result = run(tmp_path / "run", small_recipe(TUNED), watcher)
    sentence = "stage3: Fewer than 20 held-out images; logits unchanged."
    assert sentence in watcher.notes
    assert sentence in result.remarks
    assert result.per_class == without[1].per_class


def test_without_held_out_images_it_is_refused_with_the_way_out():
    recipe = small_recipe({"stage3": {"head_transform": "tuned-logit-adjust"}})
    with pytest.raises(UsageError, match=r"digits-lt has no validation split; add --set selection\.split=0\.1"):
        check_held_out(recipe, open_dataset("digits-lt"))
    check_held_out(recipe, hold_out(open_dataset("digits-lt"), 0.1))
    check_held_out(small_recipe(), open_dataset("digits-lt"))


def test_classes_without_an_image_to_spare_are_no_reason_to_advise_what_was_done():
    recipe, data = small_recipe(TUNED), open_dataset("digits-lt")
    few = np.concatenate([np.flatnonzero(data.train.labels == c)[:3] for c in range(10)])
    with pytest.raises(UsageError, match="every class of digits-lt is too small to hold one out; remove stage3"):
        check_held_out(recipe, hold_out(replace(data, train=data.train.take(few)), 0.1))


def test_held_out_images_are_not_all_floats_at_once(two_batches_at_most):
    session = Session(small_recipe(TUNED), hold_out(open_dataset("digits-lt"), 0.1), torch.device("cpu"))
    images = session.images.val
    two_batches_at_most(images, 200)
    found = held_out_before(session, "stage3")
    assert found.outputs.shape == (len(images.labels), 10)
