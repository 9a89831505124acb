"""What a stage is made of: each setting of a recipe arrives where it acts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.oracles import clouds
from helpers.runs import small_recipe
from tailcloud.data.dataset import Dataset, Split
from tailcloud.sampling import make_sampler
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts

COUNTS = [60, 12, 4, 1]


def white_images(labels):
    """White images with a grey left edge: a crop shows black, and a flip moves the edge."""
    images = np.full((len(labels), 8, 8, 1), 255, np.uint8)
    images[:, :, 0] = 100
    return Split(images, np.asarray(labels))


def session(*settings):
    train, test = (white_images(np.repeat(np.arange(4), counts)) for counts in (COUNTS, [2] * 4))
    data = Dataset("synthetic", train, test, list("abcd"), [0.0], [1 / 255])  # a network sees the grey levels
    plain = {"augment": {"crop_padding": 0, "flip": False}, "stage1": {"mixup": 0.0}}
    return Session(small_recipe(plain, *settings), data, torch.device("cpu"))


def parts(*settings, stage="stage1"):
    made = session(*settings)
    return make_parts(made, stage)


def shown(loader, epoch=0):
    return torch.cat([batch.images for batch in loader.epoch(epoch)])[:, 0]


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
@pytest.mark.parametrize("strategy", ["log", "pow4"])
def test_clouds_reach_as_far_as_the_counts_of_the_data_say(stage, strategy):
    setting = {"loss": {"name": "gcl", "scale": 7.0, "noise": 0.25, "strategy": strategy}}
    loss = parts({stage: setting}, stage=stage).executor.step.objective.loss
    expected = [7.0 * 0.25 * size for size in clouds.cloud_sizes(COUNTS, strategy)]
    assert loss.reach.tolist() == pytest.approx(expected, rel=1e-6)
    assert loss.reach[0] == 0
    assert loss.reach[3] > 1


@pytest.mark.parametrize(
    "sampler", [{"name": "ib"}, {"name": "cb"}, {"name": "en", "beta": 0.5}, {"name": "cben", "a": 0.9, "b": 0.05}]
)
def test_the_sampler_of_the_stage_chooses_the_images(sampler):
    made = parts({"stage2": {"sampler": sampler}}, stage="stage2")
    labels = np.repeat(np.arange(4), COUNTS)
    asked = make_sampler(classes=4, labels=labels, **sampler)
    drawn, expected = (one.draw(np.random.default_rng(0)).tolist() for one in (made.loader.sampler, asked))
    assert drawn == expected


def test_a_stage_that_balances_classes_shows_them_alike():
    loader = parts({"stage2": {"sampler": "cb"}}, stage="stage2").loader
    labels = torch.cat([batch.target for epoch in range(60) for batch in loader.epoch(epoch)])
    assert (labels.bincount() / len(labels)).tolist() == pytest.approx([0.25] * 4, abs=0.03)
    plain = parts(stage="stage1").loader
    assert torch.cat([batch.target for batch in plain.epoch(0)]).bincount().tolist() == COUNTS


def test_each_stage_mixes_as_it_says():
    settings = {"stage1": {"mixup": 50.0}, "stage2": {"mixup": 0.0}}
    mixed = list(parts(settings, stage="stage1").loader.epoch(0))
    assert all(0.2 < batch.lam < 0.8 and batch.other is not None for batch in mixed)
    assert all(batch.lam is None and batch.other is None for batch in parts(settings, stage="stage2").loader.epoch(0))


@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_flips_follow_the_recipe(stage):
    def edge_on_the_right(flip):
        return shown(parts({"augment": {"flip": flip}}, stage=stage).loader)[:, 0, -1] < 200

    assert not edge_on_the_right(False).any()
    assert 0.2 < edge_on_the_right(True).float().mean() < 0.8


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_crops_follow_the_recipe(padding):
    images = shown(parts({"augment": {"crop_padding": padding}}).loader)
    black_rows = (images == 0).all(dim=2).sum(dim=1)
    assert black_rows.unique().tolist() == list(range(padding + 1))


def test_batches_seed_and_stage_reach_the_loader():
    one, two = (
        parts({"seed": 5, "stage1": {"batch": 10}, "stage2": {"batch": 30}}, stage=s) for s in ("stage1", "stage2")
    )
    assert one.loader.sizes == [10] * 7 + [7]
    assert two.loader.sizes == [30, 30, 17]
    assert (one.loader.seed, one.loader.stage, two.loader.stage) == (5, "stage1", "stage2")


def test_the_scale_that_predicts_is_that_of_the_loss():
    assert parts({"stage1": {"loss": {"name": "gcl", "scale": 11.0}}}).scale == 11.0


def test_validation_decides_where_there_is_any():
    made = session()
    assert made.best_on == "test"
    held = replace(made.dataset, val=made.dataset.test)
    assert Session(made.recipe, held, torch.device("cpu")).best_on == "val"


def contrasts(second):
    """The batches of an epoch as a contrastive objective gets them."""
    contrast = {
        "model": {"head": "contrastive"},
        "augment": {"crop_padding": 1, "flip": True},
        "stage1": {"loss": "ce", "objective": "contrastive", "second_sampler": second},
        "stage2": {"loss": "ce", "head_transform": {"name": "fresh", "kind": "linear"}},
    }
    return list(parts(contrast).loader.epoch(0))


def test_an_image_that_is_seen_twice_is_varied_twice():
    for batch in contrasts("cb"):
        varied = (batch.images != batch.views[0]).flatten(1).any(dim=1)
        assert 0.5 < varied.float().mean() < 1.0 or len(varied) < 16


def test_a_second_stream_is_drawn_by_itself():
    """Also by the same sampler, it has other images in other views."""
    batches = contrasts("ib")
    first, second = (
        torch.cat([one.images.flatten(1) for one in ones]) for ones in (batches, [batch.second for batch in batches])
    )
    assert not torch.equal(first, second)
    targets = [torch.cat(ones) for ones in zip(*((b.target, b.second.target) for b in batches), strict=True)]
    assert not torch.equal(*targets)
    assert torch.equal(*(target.bincount() for target in targets))
