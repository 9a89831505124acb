"""Each operation is Pillow's, up to Pillow's rounding; each image of a batch has its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from tailcloud.data.augment.image_ops import OPERATIONS, Chosen, apply_operations, enhanced, mapped, warped

HEIGHT, WIDTH = 23, 31
BILINEAR = Image.Resampling.BILINEAR


def photographs(count, channels, seed=0):
    """Smooth images with some noise: levels are spread unevenly, and differently in each channel."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(20, 236, (count, 4, 5, channels), dtype=np.uint8)
    large = [
        np.stack(
            [
                np.asarray(Image.fromarray(image[..., channel]).resize((WIDTH, HEIGHT), BILINEAR))
                for channel in range(channels)
            ],
            axis=2,
        )
        for image in coarse
    ]
    return np.clip(np.stack(large) + generator.integers(-9, 10, (count, HEIGHT, WIDTH, channels)), 0, 255).astype(
        np.uint8
    )


def affine(image, matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, resample=BILINEAR)


PILLOW = {
    "identity": lambda image, _: image,
    "shear_x": lambda image, strength: affine(image, (1, strength, 0, 0, 1, 0)),
    "shear_y": lambda image, strength: affine(image, (1, 0, 0, strength, 1, 0)),
    "translate_x": lambda image, strength: affine(image, (1, 0, strength * WIDTH, 0, 1, 0)),
    "translate_y": lambda image, strength: affine(image, (1, 0, 0, 0, 1, strength * HEIGHT)),
    "rotate": lambda image, strength: image.rotate(strength, resample=BILINEAR),
    "brightness": lambda image, strength: ImageEnhance.Brightness(image).enhance(1 + strength),
    "color": lambda image, strength: ImageEnhance.Color(image).enhance(1 + strength),
    "contrast": lambda image, strength: ImageEnhance.Contrast(image).enhance(1 + strength),
    "sharpness": lambda image, strength: ImageEnhance.Sharpness(image).enhance(1 + strength),
    "posterize": lambda image, strength: ImageOps.posterize(image, 8 - int(strength)),
    "solarize": lambda image, strength: ImageOps.solarize(image, 256 - strength),
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "invert": lambda image, _: ImageOps.invert(image),
}
# Strengths to try, and the largest difference in levels. Pillow truncates each result to a whole level, and rounds
# grey, mean grey and smoothed levels before that.
CASES = {
    "identity": ([0.0, 1.0], 0),
    "shear_x": ([-0.99, -0.3, 0.123, 0.7], 1.001),
    "shear_y": ([-0.99, -0.3, 0.123, 0.7], 1.001),
    "translate_x": ([-0.9, -0.21, 0.123, 0.4], 1.001),
    "translate_y": ([-0.9, -0.21, 0.123, 0.4], 1.001),
    "rotate": ([-135.0, -30.0, 6.7, 90.0, 101.0], 1.001),
    "brightness": ([-1.0, -0.4, 0.3, 0.99], 1),
    "color": ([-1.0, -0.4, 0.3, 0.99], 2),
    "contrast": ([-1.0, -0.4, 0.3, 0.99], 2),
    "sharpness": ([-1.0, -0.4, 0.3, 0.99], 2),
    "posterize": ([0.0, 1.0, 4.0, 6.0], 0),
    "solarize": ([0.0, 28.4, 142.2, 256.0], 0),
    "autocontrast": ([0.0], 1),
    "equalize": ([0.0], 0),
    "invert": ([0.0], 0),
}


def by_pillow(pixels, name, strength):
    grey = pixels.shape[2] == 1
    changed = np.asarray(PILLOW[name](Image.fromarray(pixels[..., 0] if grey else pixels), strength), np.float32)
    return changed[..., None] if grey else changed


def by_us(pixels, names, strengths, **options):
    numbers = torch.tensor([OPERATIONS.index(name) for name in names])
    return apply_operations(torch.from_numpy(pixels).float(), numbers, torch.tensor(strengths), **options).numpy()


def test_every_operation_has_an_oracle():
    assert list(PILLOW) == list(CASES) == list(OPERATIONS)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_pillow(name, channels):
    strengths, tolerance = CASES[name]
    pixels = photographs(len(strengths), channels)
    got = by_us(pixels, [name] * len(strengths), strengths)
    for image, strength, ours in zip(pixels, strengths, got, strict=True):
        difference = np.abs(ours - by_pillow(image, name, strength))
        # Where a pixel's source is at the very edge, float32 and Pillow's float64 may differ on which side.
        off = (difference > tolerance).any(axis=2).sum()
        assert off <= (2 if name in OPERATIONS[1:6] else 0), (strength, difference.max())
    assert np.array_equal(got, pixels) == (name == "identity" or (name, channels) == ("color", 1))


def test_each_image_has_its_own_operation_as_if_it_were_alone():
    names = list(OPERATIONS) * 2
    strengths = [CASES[name][0][place % len(CASES[name][0])] for place, name in enumerate(names)]
    pixels = photographs(len(names), 3, seed=1)
    together = by_us(pixels, names, strengths)
    for place, (name, strength) in enumerate(zip(names, strengths, strict=True)):
        alone = by_us(pixels[place : place + 1], [name], [strength])
        assert np.array_equal(together[place], alone[0]), name


@pytest.mark.parametrize("channels", [1, 3])
def test_a_channel_of_one_level_and_one_of_few_pixels_stay(channels):
    flat = np.full((2, 4, 4, channels), 93, np.uint8)
    assert np.array_equal(by_us(flat, ["autocontrast", "equalize"], [0.0, 0.0]), flat)
    few = np.arange(16 * channels, dtype=np.uint8).reshape(1, 4, 4, channels)
    assert np.array_equal(by_us(few, ["equalize"], [0.0])[0], by_pillow(few[0], "equalize", 0.0))


def test_equalize_is_clamped_as_in_pillow():
    """510 − 1 levels above a step of 1: the table would exceed 255."""
    pixels = np.repeat(np.arange(256, dtype=np.uint8), 2)[:510].reshape(1, 17, 30, 1)
    assert np.array_equal(by_us(pixels, ["equalize"], [0.0])[0], by_pillow(pixels[0], "equalize", 0.0))


def test_what_comes_from_outside_has_the_level_asked_for():
    pixels = photographs(1, 3)
    assert (by_us(pixels, ["translate_x"], [0.5], fill=128.0)[0, :, WIDTH // 2 + 1 :] == 128).all()
    assert (by_us(pixels, ["translate_y"], [-1.0])[0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(OPERATIONS),
    strength=st.floats(-1, 1, width=32),
    shape=st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2, 3])),
    seed=st.integers(0, 99),
)
def test_levels_stay_in_range_and_strength_0_changes_nothing(name, strength, shape, seed):
    generator = np.random.default_rng(seed)
    levels = generator.uniform(0, 255, (2, *shape)).astype(np.float32)  # crops leave fractions
    if name in ("posterize", "solarize"):
        strength = abs(strength) * {"posterize": 8, "solarize": 256}[name]
    got = by_us(levels, [name] * 2, [strength, 0.0])
    assert got.min() >= 0
    assert got.max() <= 255
    if name in OPERATIONS[:10]:
        assert np.array_equal(got[1], levels[1])
    elif name in ("posterize", "solarize"):
        assert np.array_equal(got[1], levels[1].round())


@given(st.integers(0, 2**31), st.sampled_from([1, 3]))
@settings(max_examples=30)
def test_each_pass_over_its_own_images_gives_the_bits_of_passes_over_all(seed, channels):
    """What a CPU does, and what other devices do."""
    generator = np.random.default_rng(seed)
    images = torch.from_numpy(photographs(9, channels, seed)).float()
    operations = torch.from_numpy(generator.integers(0, len(OPERATIONS), 9))
    strengths = torch.from_numpy(generator.uniform(0, 1, 9).astype(np.float32)) * torch.tensor([1, 8, 200])[:, None]
    for each in strengths.reshape(3, 9):
        chosen = Chosen(operations, each)
        everywhere = mapped(enhanced(warped(images, chosen, 128.0), chosen), chosen)
        assert torch.equal(apply_operations(images, operations, each, fill=128.0), everywhere)
