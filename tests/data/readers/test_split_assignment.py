"""Classes and parts from labels: order, tiny classes, and what a person should know."""

import numpy as np
import pytest

from tailcloud.data import ReadOptions
from tailcloud.data.readers.split_assignment import NO_SPLIT, assign_splits, sort_class_names
from tailcloud.errors import UsageError


def arranged(counts, **options):
    """Classes with so many training images and one test image each."""
    labels = [name for name, count in counts.items() for _ in range(count + 1)]
    parts = [part for count in counts.values() for part in ["train"] * count + ["test"]]
    return assign_splits("toy", labels, parts, None, ReadOptions(**options))


def test_names_are_sorted_and_numbers_by_value():
    assert sort_class_names({"b", "a", "10"}) == ["10", "a", "b"]
    assert sort_class_names({"10", "9", "007"}) == ["007", "9", "10"]
    assert sort_class_names({"1" * 5000, "2"}) == ["1" * 5000, "2"]  # Python refuses to count so far


def test_a_class_whose_training_images_have_another_spelling_is_asked_about():
    with pytest.raises(UsageError) as error:
        arranged({"hat": 3, "yak": 0, "Hat": 0})
    assert str(error.value) == (
        "toy: classes Hat (did you mean hat?), yak in test, but without a training image; rename what is misspelt, "
        "add some, or remove those images"
    )


def test_classes_that_differ_in_case_or_spacing_only_are_told():
    said = "Names of classes that differ only in case or spacing: Hat and hat, T shirt and t-shirt and t_shirt."
    spellings = ["hat", "Hat", "t-shirt", "t_shirt", "T shirt", "tshirts", "1-2", "12", "C", "C++"]
    assert arranged(dict.fromkeys(spellings, 3)).remarks == [f"{said} If they are one class, rename it."]
    assert arranged({"hat": 3, "shirt": 3}).remarks == []


def test_tiny_classes_stay_unless_asked():
    assert arranged({"a": 50, "b": 1}).class_names == ["a", "b"]


def test_tiny_classes_are_dropped_on_request():
    result = arranged({"a": 3, "b": 50, "c": 4, "d": 20}, min_count=5)
    assert result.class_names == ["b", "d"]
    assert result.counts("train").tolist() == [50, 20]
    assert result.counts("test").tolist() == [1, 1]
    assert (result.splits == NO_SPLIT).sum() == 9
    assert "classes a, c: fewer than 5 training images, dropped (data.min_count)." in result.remarks


def test_tiny_classes_are_merged_on_request():
    result = arranged({"a": 3, "b": 50, "z": 4}, min_count=5, small="merge")
    assert result.class_names == ["b", "other"]
    assert result.counts("train").tolist() == [50, 7]
    assert result.counts("test").tolist() == [1, 2]


def test_a_class_called_other_takes_the_tiny_ones_in():
    result = arranged({"a": 3, "other": 2, "p": 9}, min_count=5, small="merge")
    assert result.class_names == ["other", "p"]
    assert result.counts("train").tolist() == [5, 9]


def test_a_tiny_class_called_other_is_dropped_like_any():
    result = arranged({"a": 9, "other": 2}, min_count=5)
    assert result.class_names == ["a"]


def test_dropping_everything_is_refused():
    with pytest.raises(UsageError, match=r"data.min_count = 99 leaves no class of toy: the largest has 50"):
        arranged({"a": 50, "b": 3}, min_count=99)


def test_large_classes_are_limited_on_request():
    result = arranged({"a": 3, "b": 50, "c": 20, "d": 21}, max_count=20)
    assert result.counts("train").tolist() == [3, 20, 20, 20]
    assert result.counts("test").tolist() == [1, 1, 1, 1]
    assert (
        "2\u00a0classes with more than 20 training images: 31 of them are left out (data.max_count). "
        "Shot groups are of the images that stay." in result.remarks
    )
    larger = arranged({"a": 3, "b": 50, "c": 20, "d": 21}, max_count=30)
    assert set(result.rows("train")) < set(larger.rows("train"))
    assert arranged({"a": 3, "b": 9}, max_count=9).remarks == []


def test_nothing_to_train_on_or_to_test_with_is_refused():
    with pytest.raises(UsageError, match="no training image, only images for test"):
        assign_splits("toy", ["a"], ["test"], None, ReadOptions())
    with pytest.raises(UsageError, match="no class of which images could be set aside"):
        assign_splits("toy", ["a", "b"], ["", ""], None, ReadOptions())


def test_groups_are_numbered_by_their_keys():
    result = assign_splits("toy", ["a"] * 4, ["train", "train", "test", "test"], ["x", "x", "y", "z"], ReadOptions())
    assert np.unique(result.groups).tolist() == [0, 1, 2]
    assert result.groups[0] == result.groups[1]
