"""What an epoch draws: fresh in every epoch, evenly spread, and mixed images with the labels that belong to them."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.sampling import ShuffledSampler

PARTS = ["order", "corners", "flips", "partners", "lambdas"]


def loader(size=200, **options):
    """Image i is flat and has grey level i; its label has nothing to do with i, and no other image has it."""
    images = np.broadcast_to(np.arange(size, dtype=np.uint8)[:, None, None, None], (size, 4, 4, 1)).copy()
    split = Split(images, np.random.default_rng(0).permutation(size))
    options = {"batch": 32, "augment": Augment(crop_padding=2, flip=True), "mixup": 1.0} | options
    grey_levels = Normalise([0.0], [1 / 255])
    data = ResidentImages(split, torch.device("cpu"))
    return ResidentLoader(data, ShuffledSampler(size), grey_levels, **options)


def test_the_other_label_is_that_of_the_image_that_was_mixed_in():
    source = loader(augment=Augment(flip=True), mixup=20.0)
    labels = source.data.labels
    own = source.plan(3).order.split(source.sizes)
    for batch, mine in zip(source.epoch(3), own, strict=True):
        assert 0.1 < batch.lam < 0.9
        mixed = batch.images[:, 0, 1, 2]
        partner = ((mixed - batch.lam * mine) / (1 - batch.lam)).round().long()
        torch.testing.assert_close(mixed, batch.lam * mine + (1 - batch.lam) * partner)
        assert torch.equal(batch.target, labels[mine])
        assert torch.equal(batch.other, labels[partner])
        assert not torch.equal(batch.other, batch.target)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("change", [{"epoch": 1}, {"seed": 1}, {"stage": "stage2"}])
def test_every_part_is_drawn_anew_for_every_epoch_seed_and_stage(part, change):
    change = {"epoch": 0, "seed": 0, "stage": "stage1"} | change
    epoch = change.pop("epoch")
    first, again, other = named(loader().plan(0)), named(loader().plan(0)), named(loader(**change).plan(epoch))
    assert not torch.equal(first[part], other[part])
    assert torch.equal(first[part], again[part])


def named(plan):
    return {"order": plan.order, "partners": plan.partners, "lambdas": plan.lambdas, **plan.draws.tensors()}


def large_plan(**augment):
    split = Split(np.zeros((20_000, 1, 1, 1), np.uint8), np.zeros(20_000, np.int64))
    data = ResidentImages(split, torch.device("cpu"))
    return ResidentLoader(
        data, ShuffledSampler(20_000), Normalise([0.0], [1.0]), batch=64, augment=Augment(**augment)
    ).plan(0)


@pytest.mark.parametrize("padding", [1, 2, 4])
def test_all_corners_occur_evenly(padding):
    side = 2 * padding + 1
    corners = large_plan(crop_padding=padding).draws["corners"].numpy()
    occurrences = np.zeros((side, side), dtype=np.int64)
    np.add.at(occurrences, (corners[:, 0], corners[:, 1]), 1)
    expected = 20_000 / side**2
    assert np.abs(occurrences - expected).max() < 5 * np.sqrt(expected)


def test_about_half_of_the_images_are_flipped_where_flips_are_on():
    flips = large_plan(flip=True, crop_padding=1)
    assert flips.draws["flips"].float().mean().item() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(20_000))
    left = flips.draws["corners"][:, 1] == 0
    assert flips.draws["flips"][left].float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert not large_plan(flip=False).draws["flips"].any()
