"""Pictures that are far from square are read whole, unless the user says otherwise."""

from dataclasses import replace

import pytest
import torch

from helpers.photos import photos
from tailcloud.auto_recipe import choose
from tailcloud.recipe import load_recipe

CPU = torch.device("cpu")
SENTENCE = "The whole picture is read, about 3:4, with black borders; data.fit=crop reads its center larger."


def fit_and_reasons(timing, ratio, *asked, weights="none", **options):
    timing(1e-6)
    asked = [{"model": {"weights": weights}} if weights else {}, *asked]
    choice = choose(replace(photos([40, 30, 20]), native_ratio=ratio), CPU, None, asked, **options)
    return load_recipe(None, [choice.settings, *asked]).data.fit, choice


@pytest.mark.parametrize("weights", ["none", None])
def test_the_whole_picture_is_read(timing, weights):
    fit, choice = fit_and_reasons(timing, 0.75, weights=weights)
    assert fit == choice.settings["data"]["fit"] == "pad"
    assert SENTENCE in choice.reasons


@pytest.mark.parametrize("ratio", [1.0, 0.9, None])
def test_pictures_that_are_nearly_square_are_cropped(timing, ratio):
    fit, choice = fit_and_reasons(timing, ratio)
    assert fit == "crop"
    assert not any("whole picture" in reason for reason in choice.reasons)


def test_a_fit_of_the_user_is_kept(timing):
    fit, choice = fit_and_reasons(timing, 0.75, {"data": {"fit": "crop"}})
    assert fit == "crop"
    assert SENTENCE not in choice.reasons


def test_images_that_are_open_already_stay_as_they_are(timing):
    assert fit_and_reasons(timing, 0.75, resizable=False)[0] == "crop"
