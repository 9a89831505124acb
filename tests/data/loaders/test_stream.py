"""Streamed images give the batches of resident ones, bit for bit, and sees to images that cannot be read."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.streamed_parts import CPU, DECODERS, files, loaders, same
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.batch import BatchShare
from tailcloud.data.loaders.multi_stream import JoinedLoader
from tailcloud.data.loaders.placement import place_images
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.data.loaders.stream import StreamImages, StreamLoader
from tailcloud.sampling import make_sampler

VARIED = {
    "plain": {},
    "crops, flips and mixing": {"augment": Augment(crop_padding=2, flip=True), "mixup": 1.0},
    "resized crops and colours": {
        "augment": Augment(crop_area=[0.1, 1.0], flip=True, color_jitter=[0.4, 0.4, 0.4]),
        "mixup": 0.5,
    },
    "one operation each, boxes and CutMix": {
        "augment": Augment(
            flip=True, auto_augment="cifar", rand_augment=1, trivial_augment=True, random_erasing=0.5, cutout=2
        ),
        "cutmix": 1.0,
    },
    "half of the batches with boxes of rare classes": {
        "augment": Augment(crop_area=[0.1, 1.0], flip=True),
        "cutmix": 1.0,
        "cutmix_sampler": make_sampler("cb", np.sort(np.arange(30) % 3), 3),
        "cutmix_probability": 0.5,
    },
}
PASTED = {name: VARIED["half of the batches with boxes of rare classes"][name] for name in ("cutmix", "cutmix_sampler")}


@pytest.mark.parametrize("sampler", ["ib", "cb"])
@pytest.mark.parametrize("options", VARIED.values(), ids=VARIED)
def test_batches_are_those_of_images_in_memory(tmp_path, sampler, options):
    streamed, resident = loaders(tmp_path, sampler, **options)
    for number in (0, 3):
        pairs = list(zip(streamed.epoch(number), resident.epoch(number), strict=True))
        assert len(pairs) == streamed.steps == 4
        assert all(same(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    "mixing",
    [{}, {"mixup": 1.0}, {"mixup": 1.0, "cutmix": 1.0}, PASTED, PASTED | {"cutmix_probability": 0.5}],
    ids=["plain", "mixup", "both", "pasted", "sometimes pasted"],
)
@pytest.mark.parametrize("share", [BatchShare(), BatchShare(0, 1, 2), BatchShare(2, 2, 4), BatchShare(3, 2, 16)])
def test_pieces_are_those_of_images_in_memory(tmp_path, share, mixing):
    streamed, resident = loaders(tmp_path, share=share, **mixing, augment=Augment(flip=True))
    for first in (0, 2):
        for ours, theirs in zip(streamed.micro_batches(1, first), resident.micro_batches(1, first), strict=True):
            assert len(ours) == len(theirs) == share.count
            assert all(same(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_batch_that_is_not_pasted_reads_no_further_images(tmp_path):
    streamed, _ = loaders(tmp_path, **PASTED, cutmix_probability=0.5)
    plan, read = streamed.plan(1), []
    for step in range(streamed.steps):
        start, end = streamed.bounds(step)
        rows = streamed._with_partners(plan, torch.arange(start, end), plan.lambdas[step]).rows
        pasted = bool((plan.partners[start:end] >= 30).all())
        assert len(rows) == (2 if pasted else 1) * (end - start)
        read.append(pasted)
    assert {*read} == {True, False}


def test_joined_streams_are_those_of_images_in_memory(tmp_path):
    first, second = (loaders(tmp_path, sampler, stage=sampler, mixup=0.3) for sampler in ("ib", "cb"))
    ours, theirs = (JoinedLoader(one, second=other) for one, other in zip(first, second, strict=True))
    assert all(same(one, other) for one, other in zip(ours.epoch(1), theirs.epoch(1), strict=True))
    plans = ours.plan(1), theirs.plan(1)
    assert same(ours.at(plans[0], 2), theirs.at(plans[1], 2))


@pytest.mark.parametrize("shares", [[BatchShare()], [BatchShare(0, 1, 3), BatchShare(1, 1, 3), BatchShare(2, 1, 3)]])
def test_a_part_in_order_is_the_same_as_in_memory(tmp_path, monkeypatch, shares):
    monkeypatch.setattr("tailcloud.data.loaders.resident.CPU_PIXELS", 0)  # sixteen images at a time
    streamed, resident = files(tmp_path, count=40)
    transform = Normalise([0.5] * 3, [0.3] * 3)
    ours, theirs = (
        [batch for share in shares for batch in part.in_order(transform, share)]
        for part in (StreamImages(streamed, CPU, DECODERS), ResidentImages(resident, CPU))
    )
    for field in ("images", "target"):
        assert torch.equal(*(torch.cat([getattr(batch, field) for batch in part]) for part in (ours, theirs)))


def test_an_epoch_that_is_left_early_leaves_nothing_behind(tmp_path):
    streamed, resident = loaders(tmp_path)
    batches = streamed.epoch(0)
    next(batches)
    del batches
    assert all(same(one, other) for one, other in zip(streamed.epoch(1), resident.epoch(1), strict=True))


def test_one_image_can_be_of_many_sizes(tmp_path):
    """Processes that were started for small images also read larger ones."""
    for side in (4, 40, 8):
        streamed, resident = files(tmp_path / str(side), count=5, side=side)
        (batch,) = StreamImages(streamed, CPU, DECODERS).in_order(Normalise([0.0] * 3, [1 / 255] * 3))
        np.testing.assert_allclose(batch.images.permute(0, 2, 3, 1).numpy(), resident.images, atol=1e-3)


@pytest.mark.parametrize("cache", ["none", "folder"])
def test_memory_and_open_files_stay_the_same_over_many_epochs(tmp_path, cache):
    streamed, _ = files(tmp_path / "images", count=32)
    part = place_images(streamed, CPU, DECODERS, str(tmp_path / "cache") if cache == "folder" else "none")
    transform = Normalise([0.4] * 3, [0.2] * 3)
    loader = StreamLoader(
        part,
        make_sampler("ib", streamed.labels, 3),
        transform,
        batch=8,
        mixup=1.0,
        augment=Augment(crop_area=[0.1, 1.0]),
    )

    def after(epochs):
        for number in range(epochs):
            assert sum(len(batch.target) for batch in loader.epoch(number)) == 32
        return resident_bytes(), len(list(Path("/proc/self/fd").iterdir()))

    before, later = after(30), after(150)
    assert later[0] - before[0] < 8e6
    assert later[1] == before[1]


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
