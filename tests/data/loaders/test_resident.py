"""Batches of the resident plane: sampling, crops, flips and mixing act on whole batches, and repeat exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.data.augment import Augment
from tailcloud.data.augment.crop_flip import crop_and_flip
from tailcloud.data.augment.mixup import draw_lambdas, draw_partners, mix
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.epoch_plan import batch_ends
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader, evaluation_batch
from tailcloud.sampling import ShuffledSampler

RNG = np.random.default_rng(0)


def loader(size=70, **options):
    split = Split(RNG.integers(0, 256, (size, 6, 5, 3), dtype=np.uint8), np.arange(size) % 7)
    options = {"batch": 16, "seed": 3} | options
    transform = Normalise([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    return split, ResidentLoader(
        ResidentImages(split, torch.device("cpu")), ShuffledSampler(size), transform, **options
    )


def test_normalise_matches_a_naive_computation():
    images = RNG.integers(0, 256, (2, 3, 4, 3), dtype=np.uint8)
    mean, std = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]
    expected = ((images / 255 - mean) / std).transpose(0, 3, 1, 2)
    got = Normalise(mean, std)(torch.from_numpy(images))
    np.testing.assert_allclose(got.numpy(), expected, atol=2e-6)
    assert got.is_contiguous(memory_format=torch.channels_last)


def test_crop_and_flip_match_a_naive_loop():
    images = torch.from_numpy(RNG.integers(0, 256, (40, 6, 5, 2), dtype=np.uint8))
    corners = torch.from_numpy(RNG.integers(0, 5, (40, 2)))
    flips = torch.from_numpy(RNG.random(40) < 0.5)
    got = crop_and_flip(images, corners, flips, padding=2)
    for i in range(40):
        padded = np.pad(images[i].numpy(), ((2, 2), (2, 2), (0, 0)))
        row, column = corners[i].tolist()
        expected = padded[row : row + 6, column : column + 5]
        np.testing.assert_array_equal(got[i].numpy(), expected[:, ::-1] if flips[i] else expected)


@given(size=st.integers(1, 300), batch=st.integers(1, 70))
def test_batches_cover_the_epoch_and_the_last_is_never_a_single_image(size, batch):
    ends = batch_ends(size, batch).tolist()
    sizes = np.diff(ends, prepend=0)
    assert ends[-1] == size
    assert (sizes[:-1] == batch).all()
    if batch > 1 and size > 1:
        assert sizes.min() > 1
    assert sizes.max() <= batch + 1


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_partners_are_a_permutation_inside_each_batch(sizes, seed):
    batch_of = np.repeat(np.arange(len(sizes)), sizes)
    partners = draw_partners(np.random.default_rng(seed), batch_of)
    assert sorted(partners.tolist()) == list(range(len(batch_of)))
    assert (batch_of[partners] == batch_of).all()


def test_partners_do_not_depend_on_the_blocks_they_are_sorted_in(monkeypatch):
    for batch_of in (np.repeat(np.arange(40), 7), np.zeros(50, np.int64), np.zeros(0, np.int64)):
        whole = draw_partners(np.random.default_rng(5), batch_of)
        with monkeypatch.context() as patch:
            patch.setattr("tailcloud.data.augment.mixup.BLOCK", 16)
            assert np.array_equal(draw_partners(np.random.default_rng(5), batch_of), whole)


def test_lambdas_are_beta_distributed():
    lambdas = draw_lambdas(np.random.default_rng(0), 0.2, 100_000)
    assert lambdas.mean() == pytest.approx(0.5, abs=0.01)
    assert lambdas.var() == pytest.approx(1 / (4 * (2 * 0.2 + 1)), rel=0.02)


def test_mixing_is_a_weighted_mean():
    images = torch.randn(4, 1, 2, 2)
    mixed = mix(images, images[[1, 0, 3, 2]], torch.tensor(0.3))
    torch.testing.assert_close(mixed[0], 0.3 * images[0] + 0.7 * images[1])


def test_an_epoch_shows_every_image_once_with_its_label():
    split, source = loader()
    batches = list(source.epoch(0))
    assert source.steps == len(batches) == 5
    assert [len(b.target) for b in batches] == [16, 16, 16, 16, 6]
    images = torch.cat([b.images for b in batches])
    plain = source.transform(torch.from_numpy(split.images))
    for image, label in zip(images, torch.cat([b.target for b in batches]), strict=True):
        (where,) = [i for i in range(70) if torch.equal(plain[i], image)]
        assert split.labels[where] == label


def test_epochs_repeat_exactly_and_differ_from_each_other():
    _, source = loader(augment=Augment(crop_padding=2, flip=True), mixup=1.0)
    first, again, other = (list(source.epoch(number)) for number in (4, 4, 5))
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.other, b.other)
    assert not torch.equal(first[0].images, other[0].images)


def test_mixed_batches_carry_both_labels():
    split, source = loader(mixup=1.0)
    order = source.sampler.draw(source._generator("order", 2))
    start = 0
    for batch in source.epoch(2):
        own = torch.from_numpy(split.labels[order[start : start + len(batch.target)]])
        assert torch.equal(batch.target, own)
        assert sorted(batch.other.tolist()) == sorted(own.tolist())
        assert 0 <= batch.lam <= 1
        start += len(batch.target)


def test_mixing_off_draws_nothing():
    _, source = loader()
    assert all(batch.other is None and batch.lam is None for batch in source.epoch(0))


def test_parts_draw_from_generators_of_their_own():
    """Switching mixup on changes neither the order nor the crops of an epoch."""
    plain, mixed = (loader(augment=Augment(crop_padding=2), mixup=mixup)[1] for mixup in (0.0, 1.0))
    for a, b in zip(plain.epoch(1), mixed.epoch(1), strict=True):
        assert torch.equal(a.target, b.target)


def test_fewer_images_are_shown_at_once_the_larger_they_are():
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert [evaluation_batch(gpu, side**2) for side in (8, 224, 448, 4096, 100_000)] == [1024, 1024, 256, 3, 1]
    assert [evaluation_batch(cpu, side**2) for side in (32, 64, 1000)] == [128, 32, 16]
