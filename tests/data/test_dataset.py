"""Data sets: checks, statistics, and the part that is held out."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tailcloud.data import Dataset, Split, hold_out, open_dataset, parse_spec
from tailcloud.data.benchmarks.digits import all_digits
from tailcloud.data.dataset import channel_statistics
from tailcloud.errors import TailcloudError, UsageError


def dataset(labels, classes=3, test=(0, 1, 2)):
    def split(values):
        images = np.arange(len(values), dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 1), np.uint8)
        return Split(images, np.array(values, dtype=np.int64))

    return Dataset("toy", split(labels), split(list(test)), [f"c{i}" for i in range(classes)], [0.5], [0.5])


def test_held_out_images_leave_the_training_part():
    whole = dataset([0] * 40 + [1] * 10 + [2] * 3)
    held = hold_out(whole, 0.1)
    assert np.bincount(held.val.labels, minlength=3).tolist() == [4, 1, 0]
    assert held.profile.counts.tolist() == [36, 9, 3]
    together = np.concatenate([held.train.images, held.val.images])[:, 0, 0, 0]
    assert sorted(together.tolist()) == list(range(53))
    assert "class c2: too few images" in held.remarks[-1]


def test_a_class_of_four_gives_one_and_the_choice_is_always_the_same():
    whole = dataset([0] * 4 + [1] * 9)
    first, second = hold_out(whole, 0.1), hold_out(whole, 0.1)
    assert np.bincount(first.val.labels).tolist() == [1, 1]
    assert (first.val.images == second.val.images).all()
    assert first.fingerprint == second.fingerprint != whole.fingerprint


def test_nothing_held_out_changes_nothing():
    whole = dataset([0, 1, 2])
    assert hold_out(whole, 0.0) is whole


@pytest.mark.parametrize("labels", [[0, 1, 3], [0, -1, 2]])
def test_labels_outside_the_classes_are_refused(labels):
    with pytest.raises(TailcloudError, match="numbered 0 to 2"):
        dataset(labels)


def test_empty_and_lopsided_parts_are_refused():
    with pytest.raises(TailcloudError, match="no training image"):
        dataset([])
    with pytest.raises(TailcloudError, match="2 training images but 3 labels"):
        Dataset(
            "toy", Split(np.zeros((2, 2, 2, 1), np.uint8), np.zeros(3, np.int64)), dataset([0]).test, ["a"], [0], [1]
        )


def test_a_label_gap_is_an_absent_class():
    gap = dataset([0, 2, 2])
    assert gap.profile.counts.tolist() == [1, 0, 2]
    assert "class c1: no training image" in gap.profile.remarks()[0]


def test_channel_statistics_of_a_constant_channel_do_not_divide_by_zero():
    mean, std = channel_statistics(np.full((4, 2, 2, 1), 255, np.uint8))
    assert (mean, std) == ([1.0], [1.0])


def test_fingerprints_follow_the_images():
    assert open_dataset("digits-lt").fingerprint == open_dataset("digits-lt:50").fingerprint
    assert open_dataset("digits-lt").fingerprint != open_dataset("digits-lt:20").fingerprint


def test_the_digits_are_those_of_scikit_learn():
    known, digits = load_digits(), all_digits()
    assert np.array_equal(digits.pixels[..., 0], np.rint(known.images * (255 / 16)))
    assert np.array_equal(digits.labels, known.target)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("digits", 'did you mean "digits-lt"'),
        ("cifar10-lt", "needs an imbalance ratio"),
        ("cifar10:100", 'write "cifar10-lt:100"'),
        ("cifar10-lt:many", 'not "many"'),
        ("digits-lt:0.5", "at least 1"),
        ("digits-lt:nan", "at least 1"),
        ("digits-lt:inf", "at least 1"),
        ("digits-lt:", "at least 1"),
    ],
)
def test_wrong_specs_are_refused(spec, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse_spec(spec)


def test_a_ratio_that_would_empty_a_class_is_refused():
    with pytest.raises(UsageError, match="between 1 and 120"):
        open_dataset("digits-lt:121")
    assert open_dataset("digits-lt:120").profile.counts[-1] == 1
    assert set(open_dataset("digits-lt:1").profile.counts.tolist()) == {120}


@pytest.mark.parametrize("shape", [(3, 5, 7, 3), (4, 4, 4, 1), (1, 1, 1, 1), (5, 3, 3, 2)])
def test_channel_statistics_are_those_of_all_values(shape):
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    mean, std = channel_statistics(images)
    assert np.allclose(mean, (images / 255).mean(axis=(0, 1, 2)))
    assert np.allclose(std, [value or 1.0 for value in (images / 255).std(axis=(0, 1, 2))])
