"""AutoAugment and RandAugment draw what the papers say, and apply it in order."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment.auto_augment import AutoAugment, policy
from tailcloud.data.augment.base import BatchDraws, Draws, ImageInfo
from tailcloud.data.augment.image_ops import OPERATIONS, apply_operations
from tailcloud.data.augment.rand_augment import NAMES, RandAugment
from tailcloud.errors import UsageError
from tailcloud.randomness import host_generator
from tailcloud.recipe import load_recipe

# Each operation with its probability and strength as tables give it: pixels of 32, bits kept, threshold.
CIFAR = """invert .1, contrast .2 .6 · rotate .7 6.67, translate_x .3 14.5 · sharpness .8 .1, sharpness .9 .3 ·
shear_y .5 .267, translate_y .7 14.5 · autocontrast .5, equalize .9 · shear_y .2 .233, posterize .3 5 ·
color .4 .3, brightness .6 .7 · sharpness .3 .9, brightness .7 .9 · equalize .6, equalize .5 ·
contrast .6 .7, sharpness .6 .5 · color .7 .7, translate_x .5 12.89 · equalize .3, autocontrast .4 ·
translate_y .4 4.83, sharpness .2 .6 · brightness .9 .6, color .2 .8 · solarize .5 199.1, invert 0 ·
equalize .2, autocontrast .6 · equalize .2, equalize .6 · color .9 .9, equalize .6 ·
autocontrast .8, solarize .2 28.4 · brightness .1 .3, color .7 0 · solarize .4 113.8, autocontrast .9 ·
translate_y .9 14.5, translate_y .7 14.5 · autocontrast .9, solarize .8 170.7 · equalize .8, invert .1 ·
translate_y .7 14.5, autocontrast .9"""
IMAGENET = """posterize .4 4, rotate .6 30 · solarize .6 113.8, autocontrast .6 · equalize .8, equalize .6 ·
posterize .6 5, posterize .6 5 · equalize .4, solarize .2 142.2 · equalize .4, rotate .8 26.7 ·
solarize .6 170.7, equalize .6 · posterize .8 6, equalize 1 · rotate .2 10, solarize .6 28.4 ·
equalize .6, posterize .4 5 · rotate .8 26.7, color .4 0 · rotate .4 30, equalize .6 · equalize 0, equalize .8 ·
invert .6, equalize 1 · color .6 .4, contrast 1 .8 · rotate .8 26.7, color 1 .2 · color .8 .8, solarize .8 56.9 ·
sharpness .4 .7, invert .6 · shear_x .6 .167, equalize 1 · color .4 0, equalize .6 · equalize .4, solarize .2 142.2 ·
solarize .6 113.8, autocontrast .6 · invert .6, equalize 1 · color .6 .4, contrast 1 .8 · equalize .8, equalize .6"""
AS_IN_TABLES = {
    "posterize": lambda strength: 8 - strength,
    "solarize": lambda strength: 256 - strength,
    "translate_x": lambda strength: 32 * strength,
    "translate_y": lambda strength: 32 * strength,
}


def drawn(augmentation, count):
    arrays = augmentation.draw(lambda part: host_generator(0, part), count)
    return Draws({name: torch.from_numpy(array) for name, array in arrays.items()})


@pytest.mark.parametrize(("name", "table"), [("cifar", CIFAR), ("imagenet", IMAGENET)])
def test_a_policy_is_that_of_the_paper(name, table):
    numbers, probabilities, strengths = policy(name)
    expected = [[entry.split() for entry in pair.split(",")] for pair in table.split("·")]
    assert numbers.shape == (len(expected), 2) == (25, 2)
    for pair, row in enumerate(expected):
        for place, (operation, probability, *strength) in enumerate(row):
            assert OPERATIONS[numbers[pair, place]] == operation
            assert probabilities[pair, place] == float(probability)
            if strength:
                found = AS_IN_TABLES.get(operation, float)(strengths[pair, place])
                assert found == pytest.approx(float(strength[0]), abs=0.06 if float(strength[0]) > 20 else 0.006)


@pytest.mark.parametrize("name", ["cifar", "imagenet"])
def test_pairs_are_equally_likely_and_operations_as_likely_as_the_policy_says(name):
    numbers, probabilities, strengths = policy(name)
    draws = drawn(AutoAugment(auto_augment=name), 40_000)
    found = draws["auto_operations"].numpy()
    for number in range(1, len(OPERATIONS)):
        for place in range(2):
            share = (probabilities[:, place] * (numbers[:, place] == number)).sum() / 25
            assert (found[:, place] == number).mean() == pytest.approx(share, abs=0.012)
    turned = found == OPERATIONS.index("rotate")
    signed = draws["auto_strengths"].numpy()[turned]
    assert (signed > 0).mean() == pytest.approx(0.5, abs=0.05)
    assert np.abs(signed).max() == pytest.approx(strengths[numbers == OPERATIONS.index("rotate")].max())
    kept = draws["auto_strengths"].numpy()[np.isin(found, [OPERATIONS.index(n) for n in ("posterize", "solarize")])]
    assert (kept > 0).all()


def test_random_operations_are_equally_likely_and_of_one_level():
    draws = drawn(RandAugment(rand_augment=3, rand_augment_level=5), 20_000)
    found, strengths = (draws[name].numpy() for name in ("rand_operations", "rand_strengths"))
    assert found.shape == (20_000, 3)
    assert len(NAMES) == 14
    expected = 60_000 / 14
    counts = np.bincount(found.flatten(), minlength=len(OPERATIONS))
    assert counts[OPERATIONS.index("invert")] == 0
    assert np.abs(counts[: len(NAMES)] - expected).max() < 5 * np.sqrt(expected)
    for name, strength in {"rotate": 15, "shear_x": 0.15, "posterize": 2, "solarize": 128, "color": 0.45}.items():
        own = strengths[found == OPERATIONS.index(name)]
        assert np.abs(own) == pytest.approx(strength)
        assert (own < 0).mean() == pytest.approx(0 if name in ("posterize", "solarize") else 0.5, abs=0.05)


@pytest.mark.parametrize("augmentation", [AutoAugment(auto_augment="imagenet"), RandAugment(rand_augment=2)])
def test_operations_are_applied_in_order_on_grey(augmentation):
    draws, images = drawn(augmentation, 50), torch.randint(0, 256, (50, 9, 11, 3), dtype=torch.uint8)
    got = augmentation.apply(images, BatchDraws(draws, slice(None)), ImageInfo((9, 11)))
    operations, strengths = draws.tensors().values()
    once = apply_operations(images.float(), operations[:, 0], strengths[:, 0], fill=128.0)
    assert torch.equal(got, apply_operations(once, operations[:, 1], strengths[:, 1], fill=128.0))
    assert not torch.equal(got, once)


def test_a_level_without_operations_is_refused():
    with pytest.raises(UsageError, match=r"augment\.rand_augment_level is of RandAugment; set augment\.rand_augment"):
        load_recipe("digits-lt/ce", [{"augment": {"rand_augment_level": 5}}])
    load_recipe("digits-lt/ce", [{"augment": {"rand_augment": 1, "rand_augment_level": 5}}])


def test_nothing_is_drawn_where_they_are_off():
    for off in (AutoAugment(), RandAugment(), RandAugment(rand_augment_level=3)):
        assert off.draw(pytest.fail, 3) == {}
