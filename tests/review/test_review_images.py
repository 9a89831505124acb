"""Every image of a run is found in its file, however the data are given and wherever they are read."""

import numpy as np
import pytest

from helpers.drawing import draw_classes
from tailcloud.launch.run_data import clear_data_cache, open_data
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


def splits_by_path(images):
    return dict(zip(images.paths, images.splits, strict=True))


@pytest.mark.parametrize("loader", ["auto", "stream"])
@pytest.mark.parametrize("limits", [{"max_count": 4}, {"min_count": 6}, {"max_count": 2, "min_count": 6}])
def test_images_that_the_run_left_out_are_there_and_those_that_it_used_keep_their_split(folder, loader, limits):
    recipe = load_recipe("own/gcl", [{"data": {"spec": "photos", "size": 8, "loader": loader, **limits}}])
    run = open_data(recipe)
    used = {
        folder / name: split
        for split, part in {"train": run.train, "val": run.val, "test": run.test}.items()
        if part
        for name in (part.names if part.names is not None else part.images.names)
    }
    images, dataset = open_images(recipe)
    assert set(images.paths) == {path.absolute() for path in folder.rglob("*.png")}
    assert len(used) < len(images) == len(dataset.train) + len(dataset.val or ()) + len(dataset.test)
    assert [path.parent.name for path in images.paths] == [images.class_names[label] for label in images.labels]
    found = splits_by_path(images)
    assert {path: found[path] for path in used} == used
    left_out = {split for path, split in found.items() if path not in used}
    assert left_out <= {"train", "test"}
    assert ("test" in left_out) == ("min_count" in limits)  # images of a class that was dropped, set aside before


def test_merged_classes_stay_merged(folder):
    images, _ = opened("photos", min_count=6, small="merge", max_count=3)
    assert set(images.class_names) == {"cat", "other"}
    assert len(images) == 15


def test_the_group_of_a_held_out_image_is_held_out_as_a_whole(folder):
    draw_classes(folder, {"cat": 48})
    files = sorted(folder.rglob("*.png"))
    lines = [f"photos/{file.parent.name}/{file.name},{file.parent.name},{file.stem[0]}" for file in files]
    (folder.parent / "list.csv").write_text("\n".join(["path,label,burst", *lines]))
    table = {"data": {"spec": "list.csv", "size": 8, "group": "burst", "max_count": 20}, "selection": {"split": 0.3}}
    run = load_recipe("own/gcl", [table])
    images, _ = open_images(run)
    assert len(images) == 54
    assert images.splits.count("val") > len(open_data(run).val) > 0
    splits = {group: {images.splits[row] for row in np.flatnonzero(images.groups == group)} for group in images.groups}
    assert all(len(each) == 1 for each in splits.values())


def test_a_validation_split_that_the_data_name_stays(folder):
    files = sorted(folder.rglob("*.png"))
    names = ["train", "train", "val", "test"]
    lines = [
        f"photos/{file.parent.name}/{file.name},{file.parent.name},{names[row % 4]}" for row, file in enumerate(files)
    ]
    (folder.parent / "list.csv").write_text("\n".join(["path,label,split", *lines]))
    images, _ = opened("list.csv", max_count=1)
    assert splits_by_path(images) == {file: names[row % 4] for row, file in enumerate(files)}
