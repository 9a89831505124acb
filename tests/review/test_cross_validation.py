"""Every image is predicted by a head that was not trained on it, on features that have not seen the labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.photos import photos
from tailcloud.data import Split
from tailcloud.recipe import load_recipe
from tailcloud.review import cross_validation
from tailcloud.review.cross_validation import FOLDS, features_of, head_recipe, predict_held_out

LITE = {"backbone": "efficientnet_lite0", "weights": "pretrained"}


def recipe(**model):
    return load_recipe("own/ce", [{"data": {"spec": "./photos", "fit": "pad", "group": "(a)"}, "model": model}])


@pytest.mark.parametrize(
    "model",
    [
        {"backbone": "resnet20"},
        {"backbone": "resnet18", "weights": "trained.pth"},  # perhaps on these labels
        {"backbone": "efficientnet_lite1", "weights": "no-such-tag"},
        LITE,
    ],
)
def test_features_are_of_published_weights(model):
    assert features_of(recipe(**model)) == LITE


def test_images_are_read_as_in_the_run_but_not_too_small():
    scratch, pretrained = recipe(backbone="resnet20"), recipe(**LITE)
    assert head_recipe(scratch, 500, 32).data.size == 128
    assert head_recipe(scratch, 500, 160).data.size is None
    assert head_recipe(pretrained, 500, 64).data.size is None  # their features are known already
    assert head_recipe(scratch, 500, 32).data.fit == "pad"
    assert head_recipe(scratch, 500, 32).selection.split == scratch.selection.split


@pytest.fixture
def dataset():
    """Two classes of 8 images that are easy to tell apart, one of which has the wrong label, and a class of one."""
    labels = np.array([0] * 8 + [1] * 8 + [2])
    pixels = np.full((17, 32, 32, 3), 40, np.uint8) + np.arange(17, dtype=np.uint8)[:, None, None, None]
    pixels[8:16, ::4] = 250
    pixels[3, ::4] = 250  # is of class 1, labelled 0
    few = Split(pixels[[0, 8]] + np.uint8(1), np.array([0, 1]))
    return replace(photos([1, 1, 1]), train=Split(pixels, labels), test=few)


def test_predictions_are_held_out(dataset, monkeypatch):
    monkeypatch.setattr(cross_validation, "head_epochs", lambda *_: 30)
    heads, notes = head_recipe(recipe(**LITE), 19, 32), []
    found = predict_held_out(heads, dataset, torch.device("cpu"), np.arange(19), notes.append)
    assert found.predicted[:16].tolist() == [0, 0, 0, 1, 0, 0, 0, 0] + [1] * 8
    assert found.label_probability[3] < 0.5
    assert found.predicted[17:].tolist() == [0, 1]
    assert found.judged.tolist() == [True] * 16 + [False] + [True] * 2
    assert len(notes) == 2


def test_images_that_belong_together_are_in_one_fold():
    labels = np.repeat(np.arange(3), 10)
    together = np.arange(30)
    together[[4, 14, 24]] = 4
    folds = cross_validation._folds(labels, 3, together)
    assert len(set(folds[[4, 14, 24]])) == 1
    assert set(folds.tolist()) == set(range(FOLDS))
