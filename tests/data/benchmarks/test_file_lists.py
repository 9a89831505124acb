"""ImageNet-LT, Places-LT and iNaturalist 2018 from lists: numbers as published, layouts as people have them, faults."""

import json
import lzma
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.drawing import draw
from tailcloud.data import ReadOptions, open_dataset, parse_spec
from tailcloud.data.benchmarks import file_lists
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.benchmarks.file_lists import listed
from tailcloud.data.inspection import survey
from tailcloud.errors import TailcloudError, UsageError

PLACES = json.loads((Path(__file__).parent / "places_lt_counts.json").read_text())
REAL = os.environ.get("TAILCLOUD_LISTS")  # a folder with the published lists, packed or not


def places_lists(root, part_counts):
    """Lists of Places-LT with so many lines of each class by part."""
    root.mkdir(parents=True, exist_ok=True)
    for part, counts in part_counts.items():
        folder = "val" if part == "test" else "train"
        rows = [f"{folder}/c{c:03d}/{part}{i:08d}.jpg {c}\n" for c, count in enumerate(counts) for i in range(count)]
        (root / f"Places_LT_{part}.txt").write_text("".join(rows))
    return root


@pytest.fixture
def tiny(monkeypatch):
    """An ImageNet-LT of three classes."""
    small = replace(EDITIONS["imagenet-lt"], classes=3, images={"train": 6, "val": 3, "test": 3})
    monkeypatch.setitem(EDITIONS, "imagenet-lt", small)


def tiny_lists(folder, prefix="", ending=".txt"):
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"train": [f"train/n{c}/n{c}_{i}.JPEG {c}" for c in range(3) for i in range(3 - c)]}
    rows["val"] = [f"train/n{c}/n{c}_{i + 7}.JPEG {c}" for c in range(3) for i in range(1)]
    rows["test"] = [f"val/n{c}/ILSVRC2012_val_{c}.JPEG {c}" for c in range(3)]
    for part, lines in rows.items():
        text = "".join(f"{prefix}{line}\n" for line in lines).encode()
        packed = lzma.compress(text) if ending.endswith("xz") else text
        (folder / f"ImageNet_LT_{part}{ending}").write_bytes(packed)
    return folder


def draw_tiny(folder, *, flat=False):
    for c in range(3):
        for i in (0, 1, 2, 7):
            draw(folder / "train" / f"n{c}" / f"n{c}_{i}.JPEG", (40 * c, 10 * i, 0), size=(20, 30))
        draw(folder / "val" / ("." if flat else f"n{c}") / f"ILSVRC2012_val_{c}.JPEG", (40 * c, 99, 0))


def test_places_lt_is_the_published_one(tmp_path):
    places_lists(tmp_path, {"train": PLACES, "val": [20] * 365, "test": [100] * 365})
    data = listed("places-lt", tmp_path, ReadOptions())
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (62_500, 7_300, 36_500, 365)
    assert (data.profile.counts.max(), data.profile.counts.min()) == (4980, 5)
    assert data.profile.counts.tolist() == PLACES
    assert [len(group) for group in data.profile.groups.values()] == [131, 163, 71]
    assert data.class_names[:2] == ["c000", "c001"]
    assert data.remarks == ()
    assert data.shape == (224, 224, 3)
    assert (data.train.images.keep, data.test.images.keep, data.val.images.keep) == (1.0, 0.875, 0.875)


@pytest.mark.skipif(not REAL, reason="TAILCLOUD_LISTS names no folder with the published lists")
def test_the_published_lists_themselves():
    data = listed("places-lt", Path(REAL), ReadOptions())
    assert data.profile.counts.tolist() == PLACES
    assert data.fingerprint == "ea975f03161692db"
    assert (data.class_names[0], data.class_names[-1]) == ("airfield", "zen_garden")
    assert not data.remarks


def test_class_names_and_numbers_of_the_others(tmp_path):
    (tmp_path / "iNaturalist18_train.txt").write_text(
        "train_val2018/Plantae/7291/a.jpg 7291\ntrain_val2018/A/3/b.jpg 3\n"
    )
    (tmp_path / "iNaturalist18_val.txt").write_text("train_val2018/Plantae/7291/c.jpg 7291\n")
    data = listed("inat2018", tmp_path, ReadOptions(size=96))
    assert (data.classes, data.val, data.shape) == (8142, None, (96, 96, 3))
    assert (data.class_names[7291], data.class_names[3], data.class_names[0]) == ("7291", "3", "0")
    assert any("has 2 images, and the published list has 437,513" in remark for remark in data.remarks)


@pytest.mark.parametrize("where", [".", "imagenet-lt", "ImageNet_LT"])
@pytest.mark.parametrize("ending", [".txt", ".txt.xz"])
@pytest.mark.usefixtures("tiny")
def test_lists_are_found_in_the_usual_places(where, ending, tmp_path):
    tiny_lists(tmp_path / where, ending=ending)
    draw_tiny(tmp_path / "imagenet")
    data = open_dataset("imagenet-lt", tmp_path)
    assert data.profile.counts.tolist() == [3, 2, 1]
    assert data.class_names == ["n0", "n1", "n2"]
    assert data.fingerprint == listed("imagenet-lt", tmp_path, ReadOptions()).fingerprint
    assert data.remarks == ()


@pytest.mark.parametrize("prefix", ["", "data/", "./", "home/me/ImageNet/"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("folder", [".", "ILSVRC/Data/CLS-LOC"])
@pytest.mark.usefixtures("tiny")
def test_images_are_found_in_every_layout_and_the_fingerprint_stays(prefix, flat, folder, tmp_path):
    tiny_lists(tmp_path, prefix)
    draw_tiny(tmp_path / folder, flat=flat)
    data = open_dataset("imagenet-lt", tmp_path, ReadOptions(size=16))
    for part in (data.train, data.val, data.test):
        for row in range(len(part)):
            red = int(part.images.read(row)[0][8, 8, 0])
            assert abs(red - 40 * part.labels[row]) < 6
    tiny_lists(tmp_path / "other")
    assert data.fingerprint == listed("imagenet-lt", tmp_path / "other", ReadOptions(size=16)).fingerprint


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train/cabin-outdoor/{}", "val/cabin-outdoor/{}"),
        ("data_256/c/cabin/outdoor/{}", "val_256/{}"),
        ("data_large_standard/c/cabin/outdoor/{}", "val_large/{}"),
        ("Places365/data_256/cabin-outdoor/{}", "Places365/val_256/{}"),
    ],
)
@pytest.mark.parametrize("listed_as", ["train/cabin-outdoor/{}", "data_256/c/cabin/outdoor/{}"])
def test_places_are_found_in_folders_of_letters(train, test, listed_as, tmp_path):
    (tmp_path / "Places_LT_train.txt").write_text(f"{listed_as.format('1.jpg')} 5\n")
    (tmp_path / "Places_LT_test.txt").write_text("val/cabin-outdoor/2.jpg 5\n")
    draw(tmp_path / train.format("1.jpg"))
    draw(tmp_path / test.format("2.jpg"))
    data = open_dataset("places-lt", tmp_path)
    assert data.train.images.path(0).is_file()
    assert data.test.images.path(0).is_file()
    assert data.class_names[5] == "cabin-outdoor"
    assert "Places_LT_val.txt does not exist: there is no validation split." in data.remarks


@pytest.mark.usefixtures("tiny")
def test_what_is_missing_is_said_with_where_it_was_looked_for(tmp_path):
    with pytest.raises(
        TailcloudError, match=r"needs the list ImageNet_LT_train.txt, which is neither in .* imagenet-lt/.*zhmiao"
    ):
        open_dataset("imagenet-lt", tmp_path)
    tiny_lists(tmp_path)
    with pytest.raises(
        TailcloudError, match=r"needs the images of ILSVRC 2012, and train/n0/n0_0.JPEG is neither in .*image-net.org"
    ):
        open_dataset("imagenet-lt", tmp_path)


@pytest.mark.usefixtures("tiny")
def test_a_survey_needs_no_images(tmp_path):
    tiny_lists(tmp_path)
    seen = survey("imagenet-lt", tmp_path)
    assert seen.counts()["train"].tolist() == [3, 2, 1]
    assert seen.dataset.fingerprint == listed("imagenet-lt", tmp_path, ReadOptions()).fingerprint
    assert "needs the images of ILSVRC 2012" in seen.refusals[0]
    draw_tiny(tmp_path)
    assert not survey("imagenet-lt", tmp_path).refusals


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            "train/n0/a.JPEG 0\ntrain/n1/b.JPEG 3\n",
            "line 2 of .* has the label 3, and the 3 classes of imagenet-lt are",
        ),
        ("train/n0/a.JPEG 0\n\ntrain/n1/b.JPEG -1\n", "line 3 of .* has the label -1"),
        ("/etc/passwd 0\n", "line 1 of .* names /etc/passwd, which leads out of the data folder"),
        ("train/n0/a.JPEG 0\ntrain/../../b.JPEG 1\n", r"line 2 of .* names train/\.\./\.\./b.JPEG, which leads out"),
        ("../train/n0/a.JPEG 0\n", r"line 1 of .* names \.\./train/n0/a.JPEG, which leads out"),
        ("train/n0/a.JPEG cat\n", "line 1 of .* is not a path, a space and a whole number"),
        ("train/n0/a.JPEG 0\ntrain/n0/a.JPEG 1\n", "a.JPEG has the label 0 in line 1 of .* and the label 1 in line 2"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_lists_that_are_not_the_published_ones_are_refused(lines, sentence, tmp_path):
    tiny_lists(tmp_path)
    (tmp_path / "ImageNet_LT_train.txt").write_text(lines)
    with pytest.raises(UsageError, match=sentence):
        open_dataset("imagenet-lt", tmp_path)


@pytest.mark.usefixtures("tiny")
def test_all_of_it_can_be_read_into_memory(tmp_path, monkeypatch):
    tiny_lists(tmp_path)
    draw_tiny(tmp_path)
    monkeypatch.setattr(file_lists, "SIZE", 16)
    streamed, resident = (
        open_dataset("imagenet-lt", tmp_path, ReadOptions(loader=plane)) for plane in ("auto", "resident")
    )
    for mine, theirs in (
        (resident.train, streamed.train),
        (resident.val, streamed.val),
        (resident.test, streamed.test),
    ):
        assert np.array_equal(mine.pixels, [theirs.images.read(row)[0] for row in range(len(theirs))])
        assert mine.labels.tolist() == theirs.labels.tolist()
    assert resident.keep == streamed.keep == 0.875  # a trained model is shown as much of a picture, wherever these were
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    with pytest.raises(TailcloudError, match=r"imagenet-lt: 12 images at data.size = 16 with 3 channels need"):
        open_dataset("imagenet-lt", tmp_path, ReadOptions(loader="resident"))


def test_specs_take_no_ratio_and_few_settings(tmp_path):
    assert parse_spec("inat2018") == ("inat2018", None)
    with pytest.raises(UsageError, match='imagenet-lt has a fixed imbalance and takes no ratio; write "im'):
        parse_spec("imagenet-lt:100")
    with pytest.raises(UsageError, match=r"data.fit = pad is for your own images; leave it out for places-lt"):
        open_dataset("places-lt", tmp_path, ReadOptions(fit="pad"))
