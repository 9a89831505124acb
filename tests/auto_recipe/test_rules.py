"""The rules that follow from the data alone, at their borders."""

import numpy as np
import pytest

from tailcloud.auto_recipe.flip_test import FlipTest
from tailcloud.auto_recipe.rules import (
    ChosenSettings,
    choose_augmentation,
    choose_stages,
    choose_validation,
    default_epochs,
    images_held_out,
)
from tailcloud.data import Dataset, Split
from tailcloud.recipe import load_recipe

UNKNOWN = FlipTest(0, 2, 0, 0, 0)


def dataset(counts, channels=3):
    """Images of one pixel, which take no memory."""
    labels = np.repeat(np.arange(len(counts)), counts)
    images = np.broadcast_to(np.zeros((1, 1, 1, channels), np.uint8), (len(labels), 1, 1, channels))
    test = Split(images[:2], labels[:2])
    names, mean = [str(label) for label in range(len(counts))], [0.0] * channels
    return Dataset("photos", Split(images, labels), test, names, mean, [1.0] * channels)


def chosen(rule, *arguments):
    settings = ChosenSettings()
    rule(settings, *arguments)
    return settings.settings


@pytest.mark.parametrize(("images", "split"), [(499, 0.0), (500, 0.1)])
def test_five_hundred_images_are_enough_to_hold_some_out(images, split):
    assert chosen(choose_validation, dataset([images - 100, 100])) == {"selection": {"split": split}}


@pytest.mark.parametrize(("images", "batch"), [(20_000, 64), (20_001, 128), (100_000, 128), (100_001, 256)])
def test_batches_grow_with_the_images(images, batch):
    found = chosen(choose_stages, dataset([images - 100, 100]), load_recipe("digits-lt/gcl"))
    assert found["stage1"]["batch"] == found["stage2"]["batch"] == batch


@pytest.mark.parametrize(("counts", "epochs"), [([149, 100], 0), ([150, 100], None)])
def test_classes_that_are_nearly_as_frequent_need_no_second_stage(counts, epochs):
    assert chosen(choose_stages, dataset(counts), load_recipe("digits-lt/gcl"))["stage2"].get("epochs") == epochs


@pytest.mark.parametrize(("images", "epochs"), [(50_000, 200), (50_001, 100)])
def test_many_images_need_fewer_epochs(images, epochs):
    assert default_epochs(dataset([images - 100, 100])) == epochs


@pytest.mark.parametrize(("side", "shift"), [(3, 1), (32, 4)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_shifted_by_an_eighth_and_a_pixel_at_least_and_flipped_in_colour(side, shift, channels):
    found = chosen(choose_augmentation, dataset([9, 5], channels), side, UNKNOWN)
    assert found == {"augment": {"crop_padding": shift, "flip": channels == 3}}


def test_held_out_images_are_those_that_a_run_would_hold_out():
    assert [images_held_out(dataset([100, 40]), share) for share in (0.0, 0.1, 0.25)] == [0, 14, 35]
