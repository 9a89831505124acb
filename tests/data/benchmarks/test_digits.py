"""digits-lt, exactly: which images, how many, and none of them in both parts."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tailcloud.data import open_dataset
from tailcloud.data.benchmarks.digits import open_digits
from tailcloud.errors import UsageError

COUNTS = [120, 77, 50, 32, 21, 13, 8, 5, 3, 2]


@pytest.fixture(scope="module")
def digits():
    return open_digits(None)


def test_counts_and_groups(digits):
    assert digits.profile.counts.tolist() == COUNTS
    assert (len(digits.train), len(digits.test)) == (331, 500)
    assert np.bincount(digits.test.labels).tolist() == [50] * 10
    groups = digits.profile.groups
    assert [len(groups[name]) for name in ("many", "medium", "few")] == [1, 4, 5]


def test_images_are_native_and_grey(digits):
    assert digits.shape == (8, 8, 1)
    assert digits.train.images.dtype == digits.test.images.dtype == np.uint8
    assert digits.train.images.max() == 255
    assert digits.class_names == list("0123456789")


def test_each_class_is_shuffled_once_and_cut_into_test_and_train(digits):
    bunch, random = load_digits(), np.random.RandomState(0)
    for label, count in enumerate(COUNTS):
        members = np.where(bunch.target == label)[0]
        random.shuffle(members)
        for part, expected in ((digits.test, members[:50]), (digits.train, members[50 : 50 + count])):
            found = part.images[part.labels == label][..., 0] * (16 / 255)
            assert np.array_equal(np.rint(found), bunch.images[expected])


def test_no_image_is_in_both_parts(digits):
    train = {image.tobytes() for image in digits.train.images}
    assert not train & {image.tobytes() for image in digits.test.images}


def test_normalisation_is_that_of_the_training_images(digits):
    pixels = digits.train.images / 255
    assert digits.mean == pytest.approx([pixels.mean()])
    assert digits.std == pytest.approx([pixels.std()])


def test_spec_and_other_ratios(digits):
    assert digits.spec == "digits-lt"
    assert open_dataset("digits-lt").fingerprint == open_dataset("digits-lt:50").fingerprint == digits.fingerprint
    tenth = open_dataset("digits-lt:10")
    assert (tenth.spec, tenth.profile.counts[[0, -1]].tolist()) == ("digits-lt:10", [120, 12])
    assert tenth.fingerprint != digits.fingerprint


def test_a_ratio_beyond_the_largest_class_is_refused():
    with pytest.raises(UsageError, match="between 1 and 120"):
        open_dataset("digits-lt:121")
