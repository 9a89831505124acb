"""Every image of a run is found in its file, however the data are given and wherever they are read."""

import numpy as np
import pytest

from helpers.drawing import draw_classes
from tailcloud.launch.run_data import clear_data_cache
from tailcloud.recipe import load_recipe
from tailcloud.review.review_images import duplicates_among, open_images


@pytest.fixture
def folder(tmp_path, monkeypatch):
    clear_data_cache()
    monkeypatch.chdir(tmp_path)
    return draw_classes(tmp_path / "photos", {"cat": 9, "horse": 6})


def opened(spec, **data):
    return open_images(load_recipe("own/ce", [{"data": {"spec": spec, "size": 8, **data}}]))


def test_each_image_has_its_file_label_and_split(folder):
    images, dataset = opened("photos")
    assert set(images.paths) == {path.absolute() for path in folder.rglob("*.png")}
    assert [path.parent.name for path in images.paths] == [images.class_names[label] for label in images.labels]
    assert [images.splits.count(split) for split in ("train", "val", "test")] == [
        len(split) for split in (dataset.train, dataset.val, dataset.test)
    ]
    assert images.names[0] == images.paths[0].relative_to(folder).as_posix()
    assert images.groups is None


def test_images_that_stay_in_their_files_are_the_same(folder):
    resident, _ = opened("photos")
    streamed, dataset = opened("photos", loader="stream")
    assert dataset.train.streamed
    assert streamed.paths == resident.paths
    assert np.array_equal(streamed.labels, resident.labels)
    assert duplicates_among(dataset) is None


def test_a_list_keeps_its_groups(folder):
    files = sorted(folder.rglob("*.png"))
    lines = [f"photos/{file.parent.name}/{file.name},{file.parent.name},{file.stem}" for file in files]
    (folder.parent / "list.csv").write_text("\n".join(["path,label,burst", *lines]))
    images, _ = opened("list.csv", group="burst")
    assert set(images.paths) == set(files)
    assert len(np.unique(images.groups)) == 9
    assert all(name.startswith("photos/") for name in images.names)
