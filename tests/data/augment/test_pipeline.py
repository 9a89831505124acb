"""Random resized crops and colours: as a naive loop has them, drawn as they should be, or not at all."""

import numpy as np
import pytest
import torch

from helpers.oracles import views as oracle
from tailcloud.data.augment import Augment
from tailcloud.data.augment.color_jitter import jittered
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.augment.pipeline import AugmentPipeline
from tailcloud.data.augment.resized_crop import RATIO, TRIES, crop_and_resize, crop_boxes
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.errors import UsageError
from tailcloud.randomness import host_generator
from tailcloud.recipe import load_recipe
from tailcloud.sampling import ShuffledSampler

RNG = np.random.default_rng(0)
LEVELS = Normalise([0.0] * 3, [1 / 255] * 3)
CROPS = Augment(flip=True, crop_area=[0.08, 1.0])


def drawn(augment, count):
    return AugmentPipeline(LEVELS, augment).draw(lambda part: host_generator(0, part), count)


@pytest.mark.parametrize("aspect", [1.0, 0.2, 0.6, 1.5, 7.0])
def test_boxes_follow_the_usual_rule(aspect):
    draws = drawn(CROPS, 200)
    found = crop_boxes(draws["tries"], draws["places"], torch.full((200,), aspect), RATIO)
    for row in range(200):
        expected = oracle.box(draws["tries"][row].tolist(), draws["places"][row].tolist(), aspect, RATIO)
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_where_no_try_fits_the_largest_box_in_the_middle_is_taken():
    tries = torch.tensor([1.0, 0.0]).expand(3, TRIES, 2)  # all of the area as a square
    aspects = torch.tensor([0.5, 2.0, 1.25])
    found = crop_boxes(tries, torch.zeros(3, 2), aspects, RATIO)
    assert found[0].tolist() == pytest.approx([0, 1 / 6, 1, 2 / 3])  # 0.5 wide, 0.5 · 4 / 3 high
    assert found[1].tolist() == pytest.approx([1 / 6, 0, 2 / 3, 1])
    assert found[2].tolist() == pytest.approx([0, 0, 1, 1])


def test_boxes_lie_inside_and_have_the_areas_and_ratios_asked_for():
    draws = drawn(Augment(crop_area=[0.25, 0.5], crop_ratio=[0.5, 2.0]), 20_000)
    left, top, width, height = crop_boxes(draws["tries"], draws["places"], None, [0.5, 2.0]).unbind(1)
    assert min(left.min(), top.min()) >= 0
    assert max((left + width).max(), (top + height).max()) <= 1 + 1e-6
    area, ratio = width * height, width / height
    assert area.min() >= 0.25 - 1e-5
    assert area.max() <= 0.5 + 1e-5
    assert ratio.min() >= 0.5 - 1e-4
    assert ratio.max() <= 2 + 1e-4
    assert area.mean().item() == pytest.approx(0.375, abs=0.005)
    assert ratio.log().mean().item() == pytest.approx(0.0, abs=0.02)
    assert (left / (1 - width)).mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("shape", [(6, 6), (5, 9), (12, 3)])
def test_boxes_are_brought_to_size_as_a_naive_loop_does(shape):
    images = RNG.integers(0, 256, (12, 7, 8, 3), dtype=np.uint8)
    draws = drawn(CROPS, 12)
    found = crop_boxes(draws["tries"], draws["places"], None, RATIO)
    got = crop_and_resize(torch.from_numpy(images), found, draws["flips"], shape)
    assert got.shape == (12, *shape, 3)
    assert draws["flips"].any()
    assert not draws["flips"].all()
    for row in range(12):
        expected = oracle.cut_out(images[row].astype(float), found[row].tolist(), bool(draws["flips"][row]), shape)
        np.testing.assert_allclose(got[row].numpy(), expected, atol=2e-3)


def test_the_whole_of_an_image_is_the_image():
    images = torch.from_numpy(RNG.integers(0, 256, (3, 6, 6, 3), dtype=np.uint8))
    whole = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(3, 4)
    got = crop_and_resize(images, whole, torch.tensor([False, True, False]), (6, 6))
    torch.testing.assert_close(got[0], images[0].float(), atol=1e-3, rtol=0)
    torch.testing.assert_close(got[1], images[1].flip(1).float(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_match_a_naive_loop(channels):
    images = RNG.integers(0, 256, (9, 4, 5, channels), dtype=np.uint8)
    factors = drawn(Augment(color_jitter=[0.4, 0.8, 1.5]), 9)["factors"]
    assert factors.min() >= 0
    got = jittered(torch.from_numpy(images).float(), factors)
    for row in range(9):
        expected = oracle.jittered(images[row].astype(float), factors[row].tolist())
        np.testing.assert_allclose(got[row].numpy(), expected, atol=2e-3)


def test_factors_are_spread_around_one():
    factors = drawn(Augment(color_jitter=[0.4, 0.2, 0.0]), 20_000)["factors"]
    assert (factors[:, 2] == 1).all()
    for column, strength in enumerate((0.4, 0.2)):
        low, high, mean = (getattr(factors[:, column], how)().item() for how in ("min", "max", "mean"))
        assert (low, high, mean) == pytest.approx((1 - strength, 1 + strength, 1), abs=0.01)


def loader(**options):
    split = Split(RNG.integers(0, 256, (40, 6, 6, 3), dtype=np.uint8), np.arange(40) % 4)
    data = ResidentImages(split, torch.device("cpu"))
    return ResidentLoader(data, ShuffledSampler(40), LEVELS, batch=8, seed=3, **options)


def test_what_is_not_asked_for_draws_nothing_and_changes_nothing():
    plain = loader(augment=Augment(flip=True)).plan(1)
    both = loader(augment=Augment(flip=True, crop_area=[0.1, 1.0], color_jitter=[0.4, 0.4, 0.4])).plan(1)
    assert list(plain.draws.tensors()) == ["corners", "flips"]
    for one, other in ((plain.order, both.order), (plain.draws["flips"], both.draws["flips"])):
        assert torch.equal(one, other)
    jitter = loader(augment=Augment(color_jitter=[0.4, 0.4, 0.4])).plan(1)
    assert torch.equal(jitter.draws["factors"], both.draws["factors"])


def test_boxes_and_colours_are_drawn_apart():
    draws = drawn(Augment(crop_area=[0.08, 1.0], color_jitter=[0.5, 0.5, 0.5]), 5)
    of_areas = (draws["tries"][..., 0].flatten() - 0.08) / 0.92
    assert not torch.isclose(draws["factors"].flatten()[:, None] - 0.5, of_areas, atol=1e-6).any()


def test_crops_are_of_the_asked_size_and_mixed_after_colours():
    augment = Augment(crop_area=[0.1, 1.0], color_jitter=[0.4, 0.4, 0.4])
    for batch in loader(augment=augment, mixup=1.0, shape=(4, 5)).epoch(0):
        assert batch.images.shape == (8, 3, 4, 5)
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
        assert batch.images.min() >= -0.01
        assert batch.images.max() <= 255.01


@pytest.mark.parametrize(
    ("augment", "sentence"),
    [
        ({"crop_area": [0.1, 1.0]}, "augment.crop_area and augment.crop_padding = 1 are two ways to crop"),
        ({"crop_ratio": [0.5, 2.0]}, "augment.crop_ratio is of random resized crops; set augment.crop_area"),
        ({"crop_area": [1.0, 0.1], "crop_padding": 0}, "should be the lower bound, then the upper one"),
        ({"crop_area": [0.0, 0.1], "crop_padding": 0}, "greater than 0"),
        ({"color_jitter": [0.4, 0.4]}, "at least 3 items"),
        ({"hue_jitter": 0.1}, "augment.hue_jitter = 0.1 is of colour jitter; set augment.color_jitter"),
        ({"color_jitter_share": 0.8}, "augment.color_jitter_share = 0.8 is of colour jitter"),
        ({"hue_jitter": 0.6, "color_jitter": [0.4, 0.4, 0.4]}, "less than or equal to 0.5"),
        ({"random_grayscale": 1.1}, "less than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused(augment, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe("digits-lt/gcl", [{"augment": augment}])
