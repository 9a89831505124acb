"""Paths and arrays from Python become the data set that a folder or an ``.npz`` file of the same images becomes."""

import numpy as np
import pytest

from helpers.drawing import draw_classes
from tailcloud.data import ReadOptions, open_dataset
from tailcloud.data.file_images import FileImages
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.estimator.inputs import InMemory, as_images, encoded


@pytest.fixture
def photos(tmp_path):
    return draw_classes(tmp_path / "photos", {"cat": 30, "lynx": 6}, size=(24, 20))


def opened(paths, labels, **options):
    classes, positions = encoded(labels, len(paths))
    return InMemory(as_images(paths), positions, classes).open(ReadOptions(**options))


@pytest.mark.parametrize("options", [{}, {"size": 7, "fit": "pad"}, {"loader": "stream"}])
def test_paths_are_read_as_the_same_files_in_a_folder(photos, options):
    paths = sorted(photos.rglob("*.png"))
    data, folder = (
        opened(paths, [path.parent.name for path in paths], **options),
        open_dataset(str(photos), options=ReadOptions(**options)),
    )
    assert data.class_names == folder.class_names
    assert data.shape == folder.shape
    assert data.test is data.train
    images = {str(path): data.train.some(np.array([row]))[0][0] for row, path in enumerate(paths)}
    names = folder.train.images.names if options.get("loader") else folder.train.names
    for row, name in enumerate(names):
        assert np.array_equal(images[str(photos / name)], folder.train.some(np.array([row]))[0][0])


def test_paths_that_do_not_fit_into_memory_are_streamed(photos, monkeypatch):
    paths = sorted(photos.rglob("*.png"))
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    data = opened(paths, [path.parent.name for path in paths])
    assert isinstance(data.train.images, FileImages)
    assert data.test is data.train
    assert any(
        "need 86.4\u00a0kB of memory, and 1\u00a0kB are free: they stay in their files" in r for r in data.remarks
    )
    with pytest.raises(TailcloudError, match=r"X: 36 images at data.size = 20 .* are free; use fewer images"):
        opened(paths, [path.parent.name for path in paths], loader="resident")


def test_classes_keep_their_order_even_if_their_names_sort_differently_or_are_the_same(photos):
    paths = sorted(photos.rglob("*.png"))
    data = opened(paths, [(2.0, 10.0, -1.0)[row % 3] for row in range(36)])
    assert data.class_names == ["-1.0", "2.0", "10.0"]
    assert data.train.labels[:3].tolist() == [1, 2, 0]
    data = opened(paths, [("a\x01", "a\x02")[row % 2] for row in range(36)])
    assert data.class_names == ["a\ufffd", "a\ufffd"]
    assert data.train.labels[:2].tolist() == [0, 1]


def test_arrays_that_do_not_fit_are_refused_with_the_same_message(monkeypatch):
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    with pytest.raises(TailcloudError, match=r"X: 20 images at data.size = 9 with 1 channels need 3.24.kB of memory"):
        opened(np.zeros((20, 9, 9), np.uint8), np.arange(20) % 2)


@pytest.mark.parametrize("field", [{"test": 0.5}, {"group": "(a)"}, {"min_count": 3}, {"small": "merge"}])
def test_options_of_folders_are_refused(photos, field):
    with pytest.raises(UsageError, match=r"is for a folder or a list of images"):
        opened(sorted(photos.rglob("*.png")), [0, 1] * 18, **field)
