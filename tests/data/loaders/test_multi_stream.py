"""Joined streams: a second view shows the same images otherwise, a second sampler goes its own way."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.multi_stream import JoinedLoader
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.sampling import make_sampler

SIZE, BATCH, CLASSES = 70, 16, 7
CPU = torch.device("cpu")


def stream(sampler="ib", size=SIZE, **options):
    """Every image is of one colour, its own number: whatever the crop, its largest pixel tells which one it is."""
    colours = np.arange(1, size + 1, dtype=np.uint8)[:, None, None, None]
    labels = np.arange(size) % CLASSES
    data = ResidentImages(Split(np.broadcast_to(colours, (size, 4, 4, 1)).copy(), labels), CPU)
    settings = {"batch": BATCH, "seed": 3, "augment": Augment(crop_padding=2), "epochs": 10} | options
    return ResidentLoader(data, make_sampler(sampler, labels, CLASSES), Normalise([0.0], [1 / 255]), **settings)


def joined(size=SIZE, *, views=1, second="cb", **options):
    return JoinedLoader(
        stream(size=size, **options),
        views=[stream(size=size, views=f"view {number}", **options) for number in range(views)],
        second=stream(second, size=size, stage="stage1 second", **options) if second else None,
    )


def numbers(images):
    return images.amax(dim=(1, 2, 3)).round()


def test_the_second_view_has_the_same_images_cropped_otherwise():
    different = 0
    for batch in joined(second=None).epoch(0):
        assert torch.equal(numbers(batch.images), numbers(batch.views[0]))
        assert batch.second is None
        different += (batch.images != batch.views[0]).flatten(1).any(dim=1).sum().item()
    assert different > 0.8 * SIZE


def test_the_first_stream_is_what_it_is_alone():
    for alone, batch in zip(stream().epoch(2), joined().epoch(2), strict=True):
        assert torch.equal(alone.images, batch.images)
        assert torch.equal(alone.target, batch.target)


def test_the_second_stream_is_independent_and_of_its_own_sampler():
    first, second = [], []
    for batch in joined(views=0, second="reverse").epoch(0):
        assert batch.views == ()
        assert torch.equal((numbers(batch.second.images) - 1) % CLASSES, batch.second.target.float())
        first.append(numbers(batch.images))
        second.append(numbers(batch.second.images))
    assert torch.cat(first).unique().numel() == SIZE  # every image once
    assert torch.cat(second).unique().numel() < SIZE  # drawn with replacement
    same = joined(views=0, second="ib").epoch(0)
    assert any(not torch.equal(batch.images, batch.second.images) for batch in same)


@pytest.mark.parametrize(("size", "sizes"), [(70, [16, 16, 16, 16, 6]), (65, [16, 16, 16, 17]), (5, [5])])
def test_an_odd_last_batch_is_odd_in_every_stream(size, sizes):
    loader = joined(size)
    assert loader.sizes == sizes
    assert loader.steps == len(sizes)
    seen = [(len(b.images), *map(len, b.views), len(b.second.images), len(b.second.target)) for b in loader.epoch(0)]
    assert seen == [(length,) * 4 for length in sizes]


def tensors(batch):
    return batch.images, batch.target, *batch.views, batch.second.images, batch.second.target


def test_an_epoch_repeats_exactly_and_no_two_are_alike():
    first, again, other = ([tensors(batch) for batch in joined().epoch(number)] for number in (4, 4, 5))
    for a, b, c in zip(first, again, other, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        assert not any(torch.equal(x, y) for x, y in zip(a, c, strict=True))


def test_a_batch_can_be_assembled_from_its_rows_alone():
    loader = joined()
    plan = loader.plan(1)
    by_step = loader.at(plan, 1)
    by_rows = loader.assemble(plan, torch.arange(16, 32), plan.lambdas[1])
    assert all(torch.equal(a, b) for a, b in zip(tensors(by_step), tensors(by_rows), strict=True))
    assert len(plan.tensors()) == 18  # of each loader: order, corners, flips, partners, lambdas, boxes


def test_it_has_the_progress_of_the_stage():
    assert joined().progress(5) == 0.5
