"""TrivialAugment draws each operation and strength equally often, and applies the one drawn to each image."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment import Augment
from tailcloud.data.augment.base import BatchDraws, Draws, ImageInfo
from tailcloud.data.augment.image_ops import OPERATIONS, apply_operations
from tailcloud.data.augment.trivial_augment import STRENGTHS, TrivialAugment
from tailcloud.randomness import host_generator

LARGEST = {"shear": 0.99, "translate": 1, "rotate": 135, "posterize": 6, "solarize": 256}  # of the paper's wide space


def drawn(count, seed=0):
    arrays = TrivialAugment(trivial_augment=True).draw(lambda part: host_generator(seed, part), count)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def apply(images, operations, strengths):
    draws = Draws({"trivial_operations": operations, "trivial_strengths": strengths})
    info = ImageInfo((images.shape[1], images.shape[2]))
    return TrivialAugment(trivial_augment=True).apply(images, BatchDraws(draws, slice(None)), info)


def test_operations_and_strengths_are_spread_evenly():
    draws = drawn(60_000)
    operations, strengths = draws["trivial_operations"].numpy(), draws["trivial_strengths"].numpy()
    counts = np.bincount(operations, minlength=len(OPERATIONS))
    assert counts[OPERATIONS.index("invert")] == 0
    expected = 60_000 / 14
    assert np.abs(counts[:14] - expected).max() < 5 * np.sqrt(expected)
    for number, name in enumerate(OPERATIONS[:14]):
        own = strengths[operations == number]
        largest = LARGEST.get(name.split("_")[0], 0 if name in ("identity", "autocontrast", "equalize") else 0.99)
        assert np.abs(own).max() == pytest.approx(largest)
        levels = np.unique(np.abs(own)) if largest else np.arange(STRENGTHS)
        assert len(levels) == STRENGTHS
        assert (own < 0).mean() == pytest.approx(
            0 if not largest or name in ("posterize", "solarize") else 0.5 * (STRENGTHS - 1) / STRENGTHS, abs=0.04
        )


def test_fractions_of_bits_are_dropped():
    """31 strengths of 0 … 6 bits: five of each but the strongest."""
    operations, strengths = drawn(60_000).values()
    bits = strengths[operations == OPERATIONS.index("posterize")].long()
    shares = torch.bincount(bits).float() / len(bits)
    assert shares.numpy() == pytest.approx(np.array([5, 5, 5, 5, 5, 5, 1]) / 31, abs=0.03)


@pytest.mark.parametrize(("side", "share"), [(128, 0.25), (32, 1.0), (8, 1.0)])
def test_translations_are_at_most_32_pixels(side, share):
    images = torch.randint(1, 256, (2, side, side, 3), dtype=torch.uint8)
    operations = torch.tensor([OPERATIONS.index("translate_x"), OPERATIONS.index("translate_y")])
    got = apply(images, operations, torch.tensor([1.0, -1.0]))
    assert torch.equal(got, apply_operations(images.float(), operations, torch.tensor([share, -share])))


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_kind_become_floats_in_range(channels):
    draws = drawn(64)
    images = torch.randint(0, 256, (64, 9, 7, channels), dtype=torch.uint8)
    got = apply(images, draws["trivial_operations"], draws["trivial_strengths"])
    assert got.dtype == torch.float32
    assert got.shape == images.shape
    assert 0 <= got.min() <= got.max() <= 255


def test_nothing_is_drawn_where_it_is_off():
    assert TrivialAugment().draw(pytest.fail, 3) == {}
    assert not TrivialAugment().is_active(Augment())
