"""The obvious loop is a fair comparison: it sees the same images and learns the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from plain_loop import PlainLoop, cropped, mirrored, to_tensor

from tailcloud.data import open_dataset
from tailcloud.data.augment.crop_flip import crop_and_flip
from tailcloud.data.augment.normalize import Normalise
from tailcloud.recipe import load_recipe

CPU = torch.device("cpu")


@pytest.mark.parametrize("channels", [1, 3])
def test_its_images_are_ours_when_the_draws_are(channels):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (12, 9, 7, channels), dtype=np.uint8)
    corners, flips = random.integers(0, 9, (12, 2)), random.random(12) < 0.5
    mean, std = random.random(channels), 0.5 + random.random(channels)
    ours = crop_and_flip(torch.from_numpy(images), torch.from_numpy(corners), torch.from_numpy(flips), 4)
    ours = Normalise(mean.tolist(), std.tolist())(ours)
    dataset = replace(open_dataset("digits-lt"), mean=mean.tolist(), std=std.tolist())
    view = PlainLoop(load_recipe("digits-lt/gcl"), dataset, CPU, 0).view()
    for image, (row, column), flip, mine in zip(images, corners.tolist(), flips, ours, strict=True):
        theirs = cropped(Image.fromarray(image.squeeze()), 4, row, column)
        theirs = mirrored(theirs) if flip else theirs
        torch.testing.assert_close(view.normalised(to_tensor(theirs)), mine)


def test_it_learns():
    recipe = load_recipe("digits-lt/gcl", [{"stage1": {"epochs": 12}, "stage2": {"epochs": 3}}])
    torch.manual_seed(0)
    np.random.seed(0)
    loop = PlainLoop(recipe, open_dataset("digits-lt"), CPU, 0)
    losses = list(loop.epochs(recipe.stage1))
    assert losses[-1] < losses[0] / 2
    before = {name: value.clone() for name, value in loop.model.backbone.state_dict().items()}
    assert len(list(loop.epochs(recipe.stage2))) == 3
    assert loop.accuracy(loop.test_batches()) > 0.6
    assert all(torch.equal(value, before[name]) for name, value in loop.model.backbone.state_dict().items())
