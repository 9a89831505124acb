"""The ``Images`` protocol: whoever implements it has everything that a run needs, and nobody asks which kind it is."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tailcloud
from helpers.streamed_parts import CLASSES, CPU, DECODERS, LEVELS, files, same
from tailcloud.data.augment import Augment
from tailcloud.data.loaders.images import Images
from tailcloud.data.loaders.placement import place_images, resized_like, uncropped
from tailcloud.sampling import make_sampler

PACKAGE = Path(tailcloud.__file__).parent


@pytest.fixture(params=["stream", "resident"])
def images(request, tmp_path):
    streamed, resident = files(tmp_path)
    return place_images(streamed if request.param == "stream" else resident, CPU, DECODERS)


def test_every_kind_has_all_that_the_protocol_asks_for(images):
    members = {name for name in vars(Images) if not name.startswith("_")} | set(Images.__annotations__)
    assert members == {
        "capturable", "device", "in_order", "kind", "labels", "loader", "remarks", "report_unreadable", "some",
        "unreadable",
    }  # fmt: skip
    assert all(hasattr(images, name) for name in members)
    assert (images.kind, images.capturable) in {("stream", False), ("resident", True)}


def test_every_kind_makes_the_same_batches(images, tmp_path):
    resident = place_images(files(tmp_path)[1], CPU)
    sampler = make_sampler("cb", images.labels.numpy(), CLASSES)
    options = {"batch": 8, "augment": Augment(crop_padding=1, flip=True), "mixup": 0.5, "seed": 3}
    ours, theirs = (each.loader(sampler, LEVELS, **options) for each in (images, resident))
    assert all(same(one, other) for one, other in zip(ours.epoch(1), theirs.epoch(1), strict=True))
    rows = torch.tensor([7, 3, 21])
    pairs = zip(images.some(LEVELS, rows, 2), resident.some(LEVELS, rows, 2), strict=True)
    assert all(same(one, other) for one, other in pairs)


def test_nothing_is_unreadable_at_first_and_reports_of_other_ranks_are_accepted(images):
    assert dict(images.unreadable) == {}
    images.report_unreadable({})
    assert list(images.remarks) == []


def test_files_are_read_uncropped_and_evaluated_like_test_images(tmp_path):
    streamed, resident = files(tmp_path, side=14)
    assert streamed.streamed
    assert not resident.streamed
    larger = uncropped(streamed).images
    assert (larger.side, larger.fit, larger.keep) == (16, "squash", 1.0)
    assert resized_like(uncropped(streamed), streamed).images.side == 14
    assert uncropped(resident) is resident
    assert resized_like(resident, streamed) is resident
    assert np.array_equal(resized_like(streamed, resident).labels, streamed.labels)


def test_no_file_asks_which_kind_of_images_it_has():
    asking = re.compile(r"isinstance\([^)]*(ResidentImages|StreamImages|ResidentLoader|StreamLoader)")
    assert [path.name for path in PACKAGE.rglob("*.py") if asking.search(path.read_text())] == []
