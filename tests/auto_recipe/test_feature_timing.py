"""The expected time of stages on features, and estimates before a recipe is timed."""

import pytest
import torch

from helpers.photos import photos
from tailcloud.auto_recipe.timing import (
    BACKWARD,
    HEAD_SECONDS,
    OVERHEAD,
    RESERVE,
    StepTiming,
    estimated_timing,
    time_features,
    time_recipe,
)
from tailcloud.recipe import load_recipe

IMAGES, EVALUATED, FORWARD = 1000, 100, 0.01


def recipe(stage1, stage2):
    """Ten epochs, then three, evaluated after each."""
    first, second = {"epochs": 10, "warmup": 0, **stage1}, {"epochs": 3, "warmup": 0, **stage2}
    return load_recipe("own/gcl", [{"stage1": first, "stage2": second, "selection": {"every": 1}}])


ON_FEATURES = {"train": "head", "views": 1, "mixup": 0.0}


@pytest.mark.parametrize(
    ("stage1", "stage2", "passes"),
    [
        ({}, {}, 11 * EVALUATED + 4 * EVALUATED),  # evaluated after each epoch, and at the end
        ({}, ON_FEATURES, 11 * EVALUATED + IMAGES + EVALUATED),
        (ON_FEATURES, ON_FEATURES, IMAGES + EVALUATED),  # once for both
        ({**ON_FEATURES, "views": 4}, ON_FEATURES, 4 * IMAGES + EVALUATED),
        (ON_FEATURES, {"train": "head"}, IMAGES + EVALUATED + 4 * EVALUATED),
    ],
)
def test_images_are_embedded_once(stage1, stage2, passes):
    timing = StepTiming({"stage1": 0.0, "stage2": 0.0}, FORWARD, 0.0)
    seconds = timing.seconds(recipe(stage1, stage2), IMAGES, EVALUATED)
    assert seconds == pytest.approx((1 + RESERVE) * (OVERHEAD + passes * FORWARD))


def test_steps_on_features_do_not_depend_on_the_network():
    both = recipe({}, ON_FEATURES)
    for trained in (0.0, 0.15, 1.0):
        timing = estimated_timing(both, FORWARD, trained)
        assert timing.train == {"stage1": pytest.approx(FORWARD * (1 + BACKWARD * trained)), "stage2": HEAD_SECONDS}
        assert timing.evaluate == FORWARD


def small(stage1):
    model = {"backbone": "efficientnet_lite0", "weights": "pretrained"}
    return load_recipe("own/ce", [{"model": model, "stage1": {"epochs": 1, "batch": 4, "warmup": 0, **stage1}}])


def test_features_of_larger_images_take_longer_and_no_head_is_timed():
    dataset = photos([8, 4])
    seconds = [time_features(small(ON_FEATURES), dataset, side, torch.device("cpu")) for side in (32, 128)]
    assert 2 * seconds[0].evaluate < seconds[1].evaluate
    assert all(each.train == {"stage1": HEAD_SECONDS} for each in seconds)


def test_training_takes_longer_than_features():
    dataset = photos([8, 4])
    features = time_features(small(ON_FEATURES), dataset, 64, torch.device("cpu"))
    steps = time_recipe(small({}), dataset, 64, torch.device("cpu"))
    assert steps.train["stage1"] > 1.5 * features.evaluate
