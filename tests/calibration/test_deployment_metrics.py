"""Calibration is judged at the class frequencies that the probabilities assume, against a loop over images."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracles import calibration as oracle
from tailcloud.calibration.deployment_metrics import measure_deployment
from tailcloud.calibration.priors import importance_weights, normalised, train_prior, uniform_prior
from tailcloud.calibration.temperature import LogitCalibration
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation.metrics import calibration, ece_by_chance

COUNTS = [300, 60, 12]
SPREAD = 1.0


def perfect_model(images, seed=0):
    """Test images (one number each) of three classes, and a network whose logits are right if classes are equal."""
    random, means = np.random.default_rng(seed), np.array([-1.0, 0.0, 1.0])
    target = np.repeat(np.arange(3), images)
    x = torch.from_numpy(means[target] * SPREAD + random.normal(size=len(target)))
    centers = torch.from_numpy(means * SPREAD)

    def network(batch):
        return -((batch[:, None] - centers) ** 2) / 2

    return network, [Batch(x, torch.from_numpy(target))], x, target


def measured(images, *, temperature=1.0, prior=None, assumed=None):
    network, batches, x, target = perfect_model(images)
    fitted = LogitCalibration(1.0, temperature, uniform_prior(3) if assumed is None else assumed, "val", 50)
    figures = measure_deployment(network, batches, fitted, COUNTS, prior)["calibrated"]
    return figures, network(x).numpy(), target.tolist()


def test_a_perfect_model_is_not_blamed_for_long_tailed_test_images():
    figures, _, _ = measured([3000, 600, 300])
    assert figures["ece"] > 5
    assert figures["weighted"]["ece"] < 2
    assert figures["weighted"]["prior"] == "uniform"
    assert 3 * 300 < figures["weighted"]["effective_images"] < 3900


def test_images_that_have_the_assumed_mix_are_not_weighted():
    assert measured([500, 500, 500])[0]["weighted"] is None
    assert measured([300, 60, 12], prior=train_prior(COUNTS))[0]["weighted"] is None


@pytest.mark.parametrize("prior", [None, [300, 60, 12], [0, 1, 1], [1, 0, 0]])
def test_the_error_is_that_of_the_adjusted_probabilities_on_images_weighted_to_their_prior(prior):
    wanted = None if prior is None else normalised(prior)
    figures, logits, target = measured([90, 50, 20], temperature=0.5, prior=wanted)
    mix = [1 / 3] * 3 if wanted is None else wanted.tolist()
    for found, temperature in ((figures["weighted"], 0.5), (figures["weighted"]["before"], 1.0)):
        sure = [oracle.posterior(np.exp(row / temperature), mix) for row in logits]
        predicted, confidence = [int(np.argmax(row)) for row in sure], [max(row) for row in sure]
        expected = oracle.ece_under_prior(target, predicted, confidence, mix)
        assert found["ece"] == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any), st.integers(0, 1000))
def test_weighted_bins_are_those_of_images_counted_one_by_one(images, seed):
    random = np.random.default_rng(seed)
    target = np.repeat(np.arange(3), images)
    predicted, confidence = random.integers(0, 3, len(target)), random.uniform(0, 1, len(target))
    prior = normalised(random.uniform(0.01, 1, 3))
    weights = importance_weights(target, prior)
    assert weights.mean() == pytest.approx(1)
    found = calibration(confidence, predicted == target, weights)
    expected = oracle.ece_under_prior(target.tolist(), predicted.tolist(), confidence.tolist(), prior)
    assert found["ece"] == pytest.approx(expected, abs=1e-9)
    assert sum(one["count"] for one in found["reliability"]) == len(target)


def test_accuracies_are_those_of_the_model_as_it_is_and_adjusted_to_the_frequencies_of_training():
    """They are given apart from the counts that define the shot groups, of fewer images."""
    network, batches, x, target = perfect_model([90, 50, 20])
    assumed, frequencies = normalised([1, 2, 3]), [4000, 500, 40]
    fitted = LogitCalibration(1.0, 0.5, assumed, "val", 50)
    found = measure_deployment(network, batches, fitted, COUNTS, train_prior(COUNTS), frequencies=frequencies)["priors"]
    logits = network(x).numpy() / 0.5
    for name, mix in (("forward", frequencies), ("uniform", [1] * 3), ("backward", frequencies[::-1])):
        plain = [int(np.argmax(row)) for row in logits]
        sure = [oracle.posterior(np.exp(row) / assumed, mix) for row in logits]
        adjusted = [int(np.argmax(row)) for row in sure]
        for kind, predicted in (("plain", plain), ("adjusted", adjusted)):
            expected = oracle.accuracy_under_prior(target.tolist(), predicted, mix)
            assert found[name][kind] == pytest.approx(expected, abs=1e-6), (name, kind)


@pytest.mark.parametrize(("assumed", "name"), [(COUNTS, "train"), ([1, 1, 1], "uniform"), ([5, 1, 1], "other")])
def test_the_frequencies_that_a_model_assumes_are_named(assumed, name):
    network, batches, _, _ = perfect_model([20, 20, 20])
    fitted = LogitCalibration(1.0, 1.0, normalised(assumed))
    assert measure_deployment(network, batches, fitted, COUNTS)["priors"]["assumed"] == name


@pytest.mark.parametrize(
    ("assumed", "prior", "names"),
    [
        ([1, 1, 1], [4000, 500, 40], ("uniform", "train")),
        (COUNTS, None, ("other", "other")),  # those of the images that stayed
        ([4000, 500, 40], None, ("train", "train")),
    ],
)
def test_as_in_training_names_the_frequencies_before_images_were_left_out(assumed, prior, names):
    network, batches, _, _ = perfect_model([90, 50, 20])
    wanted, fitted = None if prior is None else normalised(prior), LogitCalibration(1.0, 1.0, normalised(assumed))
    found = measure_deployment(network, batches, fitted, COUNTS, wanted, frequencies=[4000, 500, 40])
    assert (found["priors"]["assumed"], found["calibrated"]["weighted"]["prior"]) == names


def test_what_chance_and_shot_groups_have_is_of_the_weighted_images_too():
    figures, logits, target = measured([90, 50, 20], temperature=0.5, assumed=normalised([1, 2, 3]))
    sure = torch.from_numpy(logits).div(0.5).softmax(dim=1).max(dim=1)
    unsure = torch.from_numpy(logits).softmax(dim=1).max(dim=1)
    weights = importance_weights(np.array(target), normalised([1, 2, 3]))
    for part, of_images in ((figures, None), (figures["weighted"], weights)):
        assert part["by_chance"] == pytest.approx(ece_by_chance(sure.values.numpy(), of_images), abs=1e-4)
        medium = np.array(target) == 1  # the only class of its group
        for when, said in (("before", unsure), ("after", sure)):
            right = said.indices.numpy()[medium] == 1
            expected = calibration(said.values.numpy()[medium], right, None if of_images is None else of_images[medium])
            assert part["groups"]["medium"][when]["ece"] == pytest.approx(expected["ece"], abs=1e-4)


def test_where_no_class_that_has_images_can_occur_nothing_is_measured():
    weights = importance_weights(np.array([0, 0]), normalised([0, 1]))
    assert calibration(np.array([0.5, 0.7]), np.array([True, False]), weights)["ece"] is None
    figures, _, _ = measured([50, 50, 0], prior=normalised([0, 0, 1]))
    assert figures["weighted"]["ece"] is None


@pytest.mark.parametrize("images", [40, 400])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_images_give_an_ece_also_to_perfect_probabilities(images, weighted):
    random = np.random.default_rng(images)
    confidence = random.uniform(0.2, 1, images)
    weights = random.uniform(0.1, 3, images) if weighted else None
    drawn = [calibration(confidence, random.uniform(size=images) < confidence, weights)["ece"] for _ in range(2000)]
    assert ece_by_chance(confidence, weights) == pytest.approx(np.mean(drawn), rel=0.08)
    assert ece_by_chance(confidence, np.zeros(images)) is None
