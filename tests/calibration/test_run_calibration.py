"""The end of a run: a temperature from held-out images, and what a model is worth in use."""

import json

import numpy as np
import pytest
import torch

import tailcloud
from helpers.oracles import calibration as oracle
from helpers.oracles import metrics
from helpers.runs import run, small_recipe
from tailcloud.calibration import held_out
from tailcloud.data import hold_out, open_dataset


@pytest.fixture(scope="module")
def with_validation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    return folder, run(folder, small_recipe({"selection": {"split": 0.1}, "stage1": {"epochs": 15}}))


def said(folder, part):
    """The model of a run, and its logits for a part of the data, one by one as a user gets them."""
    model = tailcloud.load(folder)
    with torch.no_grad():
        return model, model(model.transform(torch.from_numpy(part.images))).double().numpy()


def test_the_temperature_is_the_best_one_on_the_held_out_images_as_they_are_mixed(with_validation):
    folder, result = with_validation
    data = hold_out(open_dataset("digits-lt"), 0.1)
    model, logits = said(folder, data.val)
    assert result.calibrated.temperature == model.temperature != 1
    assert (model.fitted_on, result.calibrated.fitted_on) == ("val", "val")
    assert result.calibrated.images == len(data.val)
    held = [max(0.5, sum(data.val.labels == c)) for c in range(10)]
    shift = np.log(held) - np.log(model.prior)
    best = oracle.nll(logits, data.val.labels, model.temperature, shift)
    for other in (0.97, 1.03):
        assert best < oracle.nll(logits, data.val.labels, other * model.temperature, shift)


def test_ece_before_and_after_follow_from_the_models_own_probabilities(with_validation):
    folder, result = with_validation
    data = open_dataset("digits-lt")
    model, logits = said(folder, data.test)
    for figures, temperature in ((result.calibrated.before, 1.0), (result.calibrated, model.temperature)):
        probabilities = torch.from_numpy(logits / temperature).softmax(dim=1)
        sure, predicted = (column.tolist() for column in probabilities.max(dim=1))
        right = [p == t for p, t in zip(predicted, data.test.labels, strict=True)]
        assert figures.ece == pytest.approx(metrics.ece(sure, right), abs=1e-3)
    assert result.ece == pytest.approx(result.calibrated.before.ece)
    assert set(result.calibrated.groups) == {"many", "medium", "few"}
    few = result.calibrated.groups["few"]
    images = [part.count for part in few.after.reliability]
    assert sum(images) == sum(np.isin(data.test.labels, np.flatnonzero(np.array(model.counts) < 20)))


def test_accuracy_under_three_mixes_follows_from_the_models_own_probabilities(with_validation):
    folder, result = with_validation
    data = open_dataset("digits-lt")
    model, _ = said(folder, data.test)
    images = torch.from_numpy(data.test.images)
    mixes = {"forward": model.counts, "uniform": [1] * 10, "backward": oracle.backward(model.counts)}
    assert result.priors.assumed == "uniform"
    for name, mix in mixes.items():
        for key, prior in (("plain", None), ("adjusted", mix)):
            predicted = model.predict_proba(images, prior).argmax(dim=1).tolist()
            expected = oracle.accuracy_under_prior(data.test.labels.tolist(), predicted, mix)
            assert getattr(getattr(result.priors, name), key) == pytest.approx(expected, abs=0.3), (name, key)


def test_without_held_out_images_the_temperature_is_1_and_that_is_said(finished_run):
    result, about = (json.loads((finished_run / name).read_text()) for name in ("result.json", "model.json"))
    assert about["calibration"] == {"scale": 20.0, "temperature": 1.0, "fitted_on": None}
    assert about["prior"] == pytest.approx([0.1] * 10)
    assert result["calibrated"]["fitted_on"] is None
    assert result["calibrated"]["ece"] == result["calibrated"]["before"]["ece"] == result["ece"]


def test_a_handful_of_held_out_images_fits_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(held_out, "MIN_HELD_OUT_IMAGES", 1000)
    result = run(tmp_path / "run", small_recipe({"selection": {"split": 0.1}}))
    assert (result.calibrated.temperature, result.calibrated.fitted_on) == (1.0, None)


def test_more_images_than_one_number_needs_are_thinned_out_evenly(with_validation, tmp_path, monkeypatch):
    monkeypatch.setattr(held_out, "MAX_LOGITS", 170)
    result = run(tmp_path / "run", small_recipe({"selection": {"split": 0.1}}))
    assert result.calibrated.images == 17


def test_a_run_repeated_has_the_same_temperature(with_validation, tmp_path):
    _, first = with_validation
    again = run(tmp_path / "run", small_recipe({"selection": {"split": 0.1}, "stage1": {"epochs": 15}}))
    assert again.calibrated == first.calibrated
    assert again.priors == first.priors
