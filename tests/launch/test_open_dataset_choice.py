"""A recipe is chosen for a data set that is open in Python: its images keep their size."""

import numpy as np
import pytest

import tailcloud
from tailcloud.auto_recipe import timing
from tailcloud.data import open_dataset


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(timing, "MIN_TIMED_SECONDS", {"cpu": 0.001})


def opened(tmp_path, side):
    labels = np.repeat(np.arange(2), [20, 10])
    pixels = np.random.RandomState(0).randint(0, 256, (30, side, side, 3), np.uint8)
    np.savez(tmp_path / "photos.npz", images=pixels, labels=labels)
    return open_dataset(str(tmp_path / "photos.npz"))


@pytest.mark.parametrize(
    ("side", "weights", "settings"),
    [(40, None, {"method": "ce", "stage1.epochs": 1}), (64, "pretrained", {"stage1.train": "head"})],
)
def test_images_that_are_open_keep_their_size(tmp_path, side, weights, settings):
    dataset = opened(tmp_path, side)
    assert dataset.shape[:2] == (side, side)
    run = tailcloud.train(data=dataset, out=tmp_path / "run", device="cpu", time_budget=60, settings=settings)
    assert (run.recipe.data.size, run.recipe.model.pretrained) == (None, weights)
    assert run.model.size == (side, side)
