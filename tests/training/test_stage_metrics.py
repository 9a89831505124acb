"""Watching: what stands in the log, and that it disturbs nothing."""

import math

import pytest
import torch

from helpers.runs import Interrupted, StopAfter, logged, run, same_weights, small_recipe
from tailcloud.data import open_dataset
from tailcloud.evaluation.saturation import target_gradients
from tailcloud.losses import LOSSES
from tailcloud.serving.load import load

WATCHED = {"logging": {"gradients": True}}


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched") / "run"
    run(folder, small_recipe(WATCHED))
    return folder


def test_every_line_has_a_gradient_for_every_class(watched_run):
    log = logged(watched_run)
    assert len(log) == 5
    for line in log:
        assert len(line["gradients"]) == 10
        assert all(0 <= value <= 1 for value in line["gradients"])
    assert log[-1]["gradients"] != log[-2]["gradients"]


def test_a_run_that_is_watched_is_the_run_that_it_would_have_been(watched_run, finished_run):
    assert same_weights(watched_run, finished_run)
    plain = [{key: value for key, value in line.items() if key != "gradients"} for line in logged(watched_run)]
    assert plain == logged(finished_run)
    assert not any("gradients" in line for line in logged(finished_run))


def test_a_resumed_run_has_the_same_gradients(watched_run, tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(WATCHED), StopAfter(2))
    run(tmp_path / "run", small_recipe(WATCHED))
    assert logged(tmp_path / "run") == logged(watched_run)


def test_watching_may_start_on_resume(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(), StopAfter(2))
    run(tmp_path / "run", small_recipe(WATCHED))
    assert ["gradients" in line for line in logged(tmp_path / "run")] == [False, False, True, True, True]


def test_the_last_line_is_the_gradient_of_the_trained_model(tmp_path):
    """Cross-entropy has no clouds, so that the saved model alone must give the same numbers."""
    run(tmp_path / "run", small_recipe(WATCHED, name="digits-lt/ce"))
    model, train = load(tmp_path / "run"), open_dataset("digits-lt").train
    labels = torch.from_numpy(train.labels)
    with torch.no_grad():
        outputs = model.classifier(model.transform(torch.from_numpy(train.images)))
    each = target_gradients(LOSSES["ce"](), outputs, labels)
    expected = [each[labels == c].mean().item() for c in range(10)]
    assert logged(tmp_path / "run")[-1]["gradients"] == pytest.approx(expected, rel=1e-3)


def test_only_evaluated_epochs_are_watched(tmp_path):
    run(tmp_path / "run", small_recipe(WATCHED, {"selection": {"every": 2}}, name="digits-lt/ce"))
    assert ["gradients" in line for line in logged(tmp_path / "run")] == [False, True, True]


def test_weights_that_are_deferred_are_seen_when_they_count(tmp_path):
    """The rarest class weighs about 30 times as much as the most frequent one, from the last of three epochs on."""
    loss = {"stage1": {"loss": {"name": "ce", "weights": "inverse", "defer": 0.6}}}
    run(tmp_path / "run", small_recipe(WATCHED, loss, name="digits-lt/ce"))
    tail = [line["gradients"][9] for line in logged(tmp_path / "run")]
    assert all(math.isfinite(value) for value in tail)
    assert max(tail[:2]) <= 1 < tail[2]
