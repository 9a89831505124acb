"""Micro-batches of sampled, augmented, mixed batches: on any number of ranks they add up to the same batches."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.multi_stream import JoinedLoader
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.sampling import WEIGHTS, make_sampler

SIZE, CLASSES = 75, 5


MIXED = [{}, {"mixup": 1.0}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0}, {"cutmix": 1.0, "cutmix_probability": 0.5}]
MIXED += [{"cutmix": 1.0, "partners": "cb"}, {"cutmix": 0.3, "partners": "reverse", "cutmix_probability": 0.5}]


def stream(share=WHOLE_BATCH, sampler="ib", partners=None, **options):
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (SIZE, 6, 6, 3), np.uint8)
    labels = np.sort(generator.integers(0, CLASSES, SIZE))
    data = ResidentImages(Split(pixels, labels), torch.device("cpu"))
    augment = Augment(crop_padding=2, flip=True)
    settings = {"batch": 16, "augment": augment, "seed": 7, "epochs": 4, "share": share} | options
    normalise = Normalise([0.4] * 3, [0.2] * 3)
    if partners:
        settings["cutmix_sampler"] = make_sampler(partners, labels, CLASSES)
    return ResidentLoader(data, make_sampler(sampler, labels, CLASSES), normalise, **settings)


def joined(share=WHOLE_BATCH):
    return JoinedLoader(
        stream(share),
        views=[stream(share, views="second views")],
        second=stream(share, "cb", stage="stage1 second"),
    )


def tensors(batch: Batch):
    own = [batch.images, batch.target, batch.other, *batch.views]
    return own + (tensors(batch.second) if batch.second else [])


def together(micro_batches):
    """The batch that some micro_batches make up."""
    ordered = sorted(micro_batches, key=lambda micro_batch: micro_batch.place)
    assert all(torch.equal(micro_batch.whole, torch.cat([each.target for each in ordered])) for micro_batch in ordered)
    columns = zip(*map(tensors, ordered), strict=True)
    return [None if column[0] is None else torch.cat(column) for column in columns]


def shares(ranks, each):
    return [BatchShare(first=each * rank, count=each, of=each * ranks) for rank in range(ranks)]


@pytest.mark.parametrize(("ranks", "each"), [(1, 3), (2, 1), (4, 1), (2, 2), (7, 3)])
@pytest.mark.parametrize("sampler", sorted(WEIGHTS))
@pytest.mark.parametrize("mixing", MIXED, ids=str)
def test_micro_batches_are_the_batches_bit_for_bit(ranks, each, sampler, mixing):
    whole = list(stream(sampler=sampler, **mixing).epoch(3))
    steps = [list(stream(share, sampler, **mixing).micro_batches(3)) for share in shares(ranks, each)]
    for step, batch in enumerate(whole):
        micro_batches = [micro_batch for rank in steps for micro_batch in rank[step]]
        assert len(micro_batches) == ranks * each
        for expected, made in zip(tensors(batch), together(micro_batches), strict=True):
            assert (expected is made is None) or torch.equal(expected, made)
        if mixing.get("partners"):
            assert all(torch.equal(micro_batch.other_whole, batch.other) for micro_batch in micro_batches)
        assert batch.lam is None or all(torch.equal(micro_batch.lam, batch.lam) for micro_batch in micro_batches)


def test_streams_are_cut_together():
    steps = [list(joined(share).micro_batches(1)) for share in shares(2, 2)]
    for step, batch in enumerate(joined().epoch(1)):
        made = together([micro_batch for rank in steps for micro_batch in rank[step]])
        assert all((a is b is None) or torch.equal(a, b) for a, b in zip(tensors(batch), made, strict=True))


@pytest.mark.parametrize("loader", [stream(mixup=1.0), stream(cutmix=1.0), stream(**MIXED[-1]), joined()])
def test_alone_a_step_is_the_batch_and_an_epoch_may_start_anywhere(loader):
    whole = list(loader.epoch(2))
    for first in (0, 3, len(whole)):
        steps = list(loader.micro_batches(2, first))
        assert [len(micro_batches) for micro_batches in steps] == [1] * (len(whole) - first)
        for (micro_batch,), batch in zip(steps, whole[first:], strict=True):
            assert torch.equal(micro_batch.images, batch.images)
            assert micro_batch.whole is None
