"""A remark on held-out images that are easier than the test images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.runs import Watcher, small_recipe
from tailcloud.data import open_dataset
from tailcloud.evaluation import Predictions
from tailcloud.runs.folder import RunFolder
from tailcloud.training.held_out_gap import held_out_gap
from tailcloud.training.loop import train


def predictions(right):
    """Of each class so many images, and how many of them are right."""
    target = np.concatenate([np.full(images, label) for label, (images, _) in enumerate(right)])
    hit = np.concatenate([np.arange(images) < hits for images, hits in right])
    predicted = np.where(hit, target, (target + 1) % len(right))
    return Predictions(target, predicted, np.full(len(target), 0.9), hit, 1)


@pytest.mark.parametrize(
    ("held_out", "test", "remark"),
    [
        ([(100, 90), (100, 90)], [(100, 60), (100, 60)], True),
        ([(100, 60), (100, 60)], [(100, 90), (100, 90)], False),  # the test images are easier
        ([(10, 9), (10, 9)], [(10, 6), (10, 6)], False),  # chance
        ([(900, 880), (10, 3)], [(100, 97), (100, 30)], False),  # another mix of the same classes
        ([(900, 810), (10, 9)], [(900, 810), (10, 5)], False),  # chance, in the class that has few
        ([(10, 9), (0, 0)], [(10, 4), (1000, 1000)], False),  # the same; the other class is no evidence
        ([(100, 90), (0, 0)], [(100, 90), (100, 0)], False),  # a class that was not held out
        ([(100, 90), (0, 0)], [(100, 60), (100, 100)], True),  # the other one is harder
        ([(0, 0), (100, 90)], [(100, 90), (0, 0)], False),  # no class in common
    ],
    ids=[
        "harder",
        "easier",
        "few images",
        "another mix",
        "a rare class",
        "few shared images",
        "a class missing",
        "a class alone",
        "nothing in common",
    ],
)
def test_only_a_difference_beyond_chance_of_the_same_classes_is_a_remark(held_out, test, remark):
    found = held_out_gap(predictions(held_out), predictions(test), 2)
    assert bool(found) is remark
    if remark:
        assert "90.0 % (95 %: " in found
        assert "60.0 % (95 %: " in found


def test_a_run_says_so_at_its_end_and_in_its_result(tmp_path):
    """Held-out images that are those it was trained on, and test images with other labels."""
    recipe = small_recipe({"selection": {"split": 0.1}, "stage1": {"epochs": 15}})
    dataset = open_dataset("digits-lt")
    easy = replace(dataset, val=dataset.train)
    shuffled = np.random.default_rng(0).permutation(dataset.test.labels)
    harder = replace(easy, test=replace(dataset.test, labels=shuffled))
    for data, remarks in ((harder, 1), (replace(easy, test=dataset.train), 0)):
        folder, watcher = RunFolder(tmp_path / str(remarks)), Watcher()
        folder.create(recipe, "tailcloud train")
        result = train(recipe, data, folder, torch.device("cpu"), watcher)
        said = [each for each in result.remarks if "held out of training" in each]
        assert len(said) == remarks
        assert set(said) <= set(watcher.notes)
