import numpy as np
import pytest

from tailcloud.auto_recipe.flip_test import alternate_halves, block_means, run_flip_test
from tailcloud.data import Split, open_dataset

RANDOM = np.random.RandomState(3)


def noisy(pictures, count=30):
    """``count`` noisy copies of each picture [H, W]."""
    labels = np.repeat(np.arange(len(pictures)), count)
    noise = RANDOM.normal(0, 40, (len(labels), *pictures[0].shape))
    images = np.clip(np.stack(pictures)[labels] + noise, 0, 255).astype(np.uint8)
    return Split(images[..., None], labels.astype(np.int64))


def left(height=12, width=12):
    picture = np.zeros((height, width))
    picture[:, : width // 3] = 200
    return picture


def test_arrows_must_not_be_flipped():
    found = run_flip_test(noisy([left(), left()[:, ::-1]]))
    assert found.informative
    assert found.flips_hurt
    assert found.flipped_hits < 0.1 * found.hits


def test_symmetric_shapes_may_be_flipped():
    tall, wide = np.zeros((12, 12)), np.zeros((12, 12))
    tall[:, 4:8], wide[4:8] = 200, 200
    found = run_flip_test(noisy([tall, wide]))
    assert found.informative
    assert not found.flips_hurt


def test_digits_must_not_be_flipped():
    assert run_flip_test(open_dataset("digits-lt").train).flips_hurt


def test_noise_is_not_informative():
    labels = np.arange(400) % 20
    found = run_flip_test(Split(RANDOM.randint(0, 256, (400, 8, 8, 3), np.uint8), labels.astype(np.int64)))
    assert not found.informative
    assert not found.flips_hurt


def test_classes_of_one_image_are_left_out():
    split = noisy([left(), left().T], count=4)
    alone = Split(np.concatenate([split.images, split.images[:1]]), np.append(split.labels, 2))
    assert run_flip_test(alone).images == len(split)
    nothing = run_flip_test(Split(split.images[:1], split.labels[:1]))
    assert not nothing.informative
    assert not nothing.flips_hurt


@pytest.mark.parametrize("side", [5, 16, 33, 64])
def test_averages_of_mirrored_images_are_mirrored_averages(side):
    images = RANDOM.randint(0, 256, (2, side, side, 3), np.uint8)
    if side == 33:  # an odd rest is cut on one side only
        images = images[:, :, :32]
    block = max(1, min(images.shape[1:3]) // 16)
    columns = images.shape[2] // block
    plain = block_means(images).reshape(2, -1, columns, 3)
    mirrored = block_means(images[:, :, ::-1]).reshape(2, -1, columns, 3)
    np.testing.assert_allclose(mirrored, plain[:, :, ::-1])


def test_each_class_is_halved():
    labels = RANDOM.randint(0, 5, 101)
    halves = alternate_halves(labels)
    for label in range(5):
        assert abs((halves[labels == label] == 0).sum() - (halves[labels == label] == 1).sum()) <= 1
