"""Data that nobody plans for goes through both stages, and every figure that comes out is a number or none."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.runs import Watcher, small_recipe
from tailcloud.data import Dataset, Split
from tailcloud.errors import TailcloudWarning
from tailcloud.reporting import write_report
from tailcloud.runs.folder import RunFolder
from tailcloud.training.loop import train

SHAPES = {"grey": (8, 8, 1), "one pixel": (1, 1, 3), "wide": (5, 12, 4)}
COUNTS = {
    "balanced": [9, 9, 9],
    "one class": [20],
    "one class of one image": [1],
    "two classes": [40, 2],
    "a class of one image": [30, 5, 1],
    "an absent class": [30, 0, 4],
    "an absent last class": [30, 4, 0],
    "a last batch of one image": [60, 5],
    "a large head": [3000, 1],
}


def made_up(counts, shape=(8, 8, 1)):
    random = np.random.default_rng(0)

    def split(numbers):
        labels = np.repeat(np.arange(len(numbers)), numbers)
        return Split(random.integers(0, 256, (len(labels), *shape), dtype=np.uint8), labels)

    names = [f"class {number}" for number in range(len(counts))]
    test = [4] * len(counts)
    return Dataset("made-up", split(counts), split(test), names, [0.5] * shape[2], [0.25] * shape[2])


def measured(scores):
    """Whether every figure of the whole test part is a number: NaN would be None here."""
    return None not in (scores.top1, scores.top5, scores.balanced_accuracy, scores.macro_f1, scores.ece)


def trained(tmp_path, dataset, *settings):
    recipe = small_recipe({"stage1": {"epochs": 2}, "stage2": {"epochs": 1}}, *settings)
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailcloudWarning)
        result = train(recipe, dataset, folder, torch.device("cpu"), Watcher())
    assert measured(result)
    assert all(map(measured, result.stages))
    assert write_report([folder.path]).stat().st_size
    return result


@pytest.mark.parametrize("sampler", ["cb", "cben"])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_unusual_counts_train_and_never_become_nan(tmp_path, counts, sampler):
    result = trained(tmp_path, made_up(counts), {"stage2": {"sampler": sampler}})
    assert result.dataset.counts == counts
    assert len(result.per_class) == len(counts)
    if len(counts) == 1:
        assert result.top1.last == 100


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_any_image_size_and_number_of_channels_trains(tmp_path, shape):
    result = trained(tmp_path, made_up([20, 6, 2], shape), {"augment": {"crop_padding": 1, "flip": True}})
    assert result.dataset.shape == list(shape)


def test_a_class_without_test_images_is_none_not_zero(tmp_path):
    dataset = made_up([20, 6, 2])
    known = dataset.test.take(np.flatnonzero(dataset.test.labels != 1))
    result = trained(tmp_path, replace(dataset, test=known))
    assert result.per_class[1] is None
    assert result.many is None
