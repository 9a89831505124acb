"""Hue, the share of images whose colours change, and greyscale: as naive loops and Pillow have them."""

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.oracles import views as oracle
from tailcloud.data.augment import Augment
from tailcloud.data.augment.base import BatchDraws, Draws, ImageInfo
from tailcloud.data.augment.color_jitter import ColorJitter, turned
from tailcloud.data.augment.random_grayscale import RandomGrayscale
from tailcloud.randomness import host_generator

RNG = np.random.default_rng(0)
PURE = [[0, 0, 0], [255, 255, 255], [90, 90, 90], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [0, 7, 7]]
JITTER = {"color_jitter": [0.4, 0.4, 0.4], "hue_jitter": 0.1, "color_jitter_share": 0.8}


def drawn(kind, count, **options):
    return Draws({name: torch.from_numpy(each) for name, each in kind(**options).draw(generator_of, count).items()})


def generator_of(part):
    return host_generator(0, part)


def some_images(count, height=5, width=6):
    images = RNG.integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    images[0].reshape(-1, 3)[: len(PURE)] = PURE
    return images


@pytest.mark.parametrize("turn", [0.1, -0.1, 0.5, -0.5, 1 / 3, 0.01, 0.0])
def test_hues_are_turned_as_the_standard_library_does_it(turn):
    images = some_images(4)
    got = turned(torch.from_numpy(images).double(), torch.full((4,), turn, dtype=torch.float64))
    for row in range(4):
        np.testing.assert_allclose(got[row].numpy(), oracle.turned(images[row].astype(float), turn), atol=1e-9)


def test_float32_images_are_turned_like_float64_ones_and_keep_their_bits_without_a_turn():
    images, turns = torch.from_numpy(some_images(3)).float(), torch.tensor([0.1, 0.0, -0.3])
    got = turned(images, turns)
    torch.testing.assert_close(got.double(), turned(images.double(), turns.double()), atol=1e-3, rtol=0)
    assert torch.equal(got[1], images[1])


def test_a_third_of_a_turn_is_a_change_of_channels():
    images = torch.from_numpy(some_images(2)).double()
    got = turned(images, torch.full((2,), 1 / 3, dtype=torch.float64))
    torch.testing.assert_close(got, images.roll(1, dims=3), atol=1e-9, rtol=0)


@pytest.mark.parametrize("steps", [25, -25, 128])
def test_hues_are_those_of_pillow_but_for_its_rounding(steps):
    """Pillow has 256 levels of hue, saturation and value."""
    images = some_images(3, 16, 16)
    got = turned(torch.from_numpy(images).float(), torch.full((3,), steps / 255)).numpy()
    for row in range(3):
        hsv = np.array(Image.fromarray(images[row]).convert("HSV"))
        hsv[..., 0] = (hsv[..., 0].astype(int) + steps) % 255
        expected = np.array(Image.fromarray(hsv, "HSV").convert("RGB")).astype(float)
        assert np.abs(got[row] - expected).mean() < 2
        assert np.abs(got[row] - expected).max() < 10


def test_images_of_one_channel_have_no_hue_and_are_grey_already():
    images = torch.randint(0, 256, (3, 4, 4, 1), dtype=torch.uint8)
    assert turned(images.float(), torch.full((3,), 0.3)).equal(images.float())
    draws = BatchDraws(Draws({"grey": torch.ones(3, dtype=torch.bool)}), slice(None))
    assert RandomGrayscale(random_grayscale=1.0).apply(images, draws, ImageInfo((4, 4))).equal(images.float())


def test_the_share_decides_which_images_keep_their_bits():
    draws = drawn(ColorJitter, 5000, **JITTER)
    same = (draws["factors"] == 1).all(dim=1)
    assert torch.equal(same, draws["turns"] == 0)
    assert same.float().mean().item() == pytest.approx(0.2, abs=0.02)
    turns = draws["turns"][~same]
    assert (turns.min().item(), turns.max().item()) == pytest.approx((-0.1, 0.1), abs=1e-3)
    assert turns.mean().item() == pytest.approx(0, abs=0.005)
    images = torch.from_numpy(some_images(5000, 2, 4))
    got = ColorJitter(**JITTER).apply(images, BatchDraws(draws, slice(None)), ImageInfo((2, 4)))
    assert torch.equal(got[same], images[same].float())
    assert (got[~same] != images[~same]).flatten(1).any(dim=1).all()


def test_hue_and_share_do_not_disturb_the_factors():
    plain = drawn(ColorJitter, 50, color_jitter=[0.4, 0.4, 0.4])
    hue = drawn(ColorJitter, 50, color_jitter=[0.4, 0.4, 0.4], hue_jitter=0.1)
    both = drawn(ColorJitter, 50, **JITTER)
    assert list(plain.tensors()) == ["factors"]
    assert torch.equal(plain["factors"], hue["factors"])
    changed = both["turns"] != 0
    assert torch.equal(both["factors"][changed], plain["factors"][changed])
    assert torch.equal(both["turns"][changed], hue["turns"][changed])


def test_hue_comes_after_brightness_contrast_and_saturation():
    images = some_images(6)
    draws = drawn(ColorJitter, 6, **JITTER)
    got = ColorJitter(**JITTER).apply(torch.from_numpy(images), BatchDraws(draws, slice(None)), ImageInfo((5, 6)))
    for row in range(6):
        jittered = oracle.jittered(images[row].astype(float), draws["factors"][row].tolist())
        np.testing.assert_allclose(got[row].numpy(), oracle.turned(jittered, draws["turns"][row].item()), atol=5e-3)


def test_grey_images_are_those_of_a_naive_loop_and_of_pillow():
    images, share = some_images(200), 0.3
    draws = drawn(RandomGrayscale, 200, random_grayscale=share)
    got = RandomGrayscale(random_grayscale=share).apply(
        torch.from_numpy(images), BatchDraws(draws, slice(None)), ImageInfo((5, 6))
    )
    assert draws["grey"].float().mean().item() == pytest.approx(share, abs=0.1)
    for row in range(200):
        expected = oracle.greyed(images[row].astype(float)) if draws["grey"][row] else images[row]
        np.testing.assert_allclose(got[row].numpy(), expected, atol=1e-3)
        if draws["grey"][row]:
            pillow = np.array(Image.fromarray(images[row]).convert("L")).astype(float)
            assert np.abs(got[row, ..., 0].numpy() - pillow).max() <= 1


def test_grey_comes_after_colours():
    kinds = [type(each) for each in Augment(random_grayscale=0.2, **JITTER).active]
    assert kinds == [ColorJitter, RandomGrayscale]
