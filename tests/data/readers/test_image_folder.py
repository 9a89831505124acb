"""Folders of images: layouts, what is ignored, what is refused, and what the images become."""

import logging
import os
import sys
import unicodedata

import numpy as np
import pytest

from helpers.drawing import draw, draw_classes
from tailcloud.data import ReadOptions, hold_out, open_dataset
from tailcloud.data.readers.image_folder import read_folder
from tailcloud.errors import TailcloudError, UsageError

FORMS = ("NFD", "NFC")  # how macOS writes accents in names of files, and how everybody else does


def opened(path, **options):
    return open_dataset(str(path), options=ReadOptions(**options))


def names(split):
    return split.names.tolist()


def test_one_level_of_classes_is_parted_by_class(tmp_path):
    data = opened(draw_classes(tmp_path / "photos", {"cat": 20, "dog": 5, "ox": 1}))
    assert data.class_names == ["cat", "dog", "ox"]
    assert data.profile.counts.tolist() == [16, 4, 1]
    assert np.bincount(data.test.labels, minlength=3).tolist() == [4, 1, 0]
    assert data.spec == str(tmp_path / "photos")
    assert any("20 % of each class (5 images)" in remark for remark in data.remarks)
    assert any("class ox: no test image, so" in remark for remark in data.remarks)
    assert not set(names(data.train)) & set(names(data.test))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize(
    "folders", [(b"caf\xe9", b"caf\xe8"), (b"train/caf\xe9", b"test/caf\xe8"), (b"a\x01", b"a\x02")]
)
def test_classes_whose_names_look_alike_are_not_one_class(folders, tmp_path):
    draw_classes(tmp_path, {os.fsdecode(name): 4 for name in folders})
    with pytest.raises(UsageError, match="whose names differ only in characters that cannot be printed"):
        opened(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_one_name_that_is_not_utf8_is_a_class(tmp_path):
    assert opened(draw_classes(tmp_path, {os.fsdecode(b"caf\xe9"): 4, "tea": 4})).class_names == ["caf\ufffd", "tea"]


@pytest.mark.parametrize("folders", [("train/Käuze", "test/Käuze"), ("Käuze", "Krähen")])
def test_accents_as_macos_writes_them_make_no_other_class(folders, tmp_path):
    draw_classes(tmp_path, {unicodedata.normalize(form, name): 4 for form, name in zip(FORMS, folders, strict=True)})
    assert opened(tmp_path).class_names == sorted({name.partition("/")[2] or name for name in folders})


@pytest.mark.parametrize(("folders", "told"), [(("cat", "dog"), True), (("cat",), False), (("cat", "dog", "."), False)])
def test_classes_one_folder_too_deep_are_told(folders, told, tmp_path):
    draw_classes(tmp_path / "photos" / "unpacked", dict.fromkeys(folders, 3))
    remarks = read_folder(tmp_path / "photos").remarks
    assert bool(remarks) == told
    if told:
        place = tmp_path / "photos"
        assert remarks == (f"If cat, dog are the classes, give {place / 'unpacked'} instead of {place}.",)


def test_a_folder_with_a_tilde_is_not_the_home_of_another_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_classes(tmp_path / "~root", {"cat": 4, "dog": 4})
    for spec in ("./~root", "~root"):
        assert opened(spec).class_names == ["cat", "dog"]


def test_every_image_keeps_its_label_and_name(tmp_path):
    data = opened(draw_classes(tmp_path, {"cat": 6, "horse": 6}), test=0.5)
    for split in (data.train, data.test):
        for image, label, name in zip(split.images, split.labels, names(split), strict=True):
            folder = data.class_names[label]
            assert image[0, 0].tolist() == [len(folder), int(name.split("/")[1].removesuffix(".png")), 0]
            assert name.startswith(f"{folder}/")


def test_given_parts_are_kept(tmp_path):
    for part, count in (("train", 6), ("val", 2), ("test", 3)):
        draw_classes(tmp_path / part, {"cat": count, "dog": count})
    data = opened(tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (12, 4, 6)
    assert hold_out(data, 0.5) is data
    assert data.remarks == ()


def test_without_a_test_folder_validation_is_for_testing(tmp_path):
    for part, count in (("Train", 6), ("valid", 2)):
        draw_classes(tmp_path / part, {"cat": count, "dog": count})
    data = opened(tmp_path)
    assert (len(data.train), data.val, len(data.test)) == (12, None, 4)
    assert "validation split is used for testing" in data.remarks[0]


def test_a_training_folder_alone_is_parted(tmp_path):
    draw_classes(tmp_path / "train", {"cat": 10, "dog": 10})
    draw(tmp_path / "test" / "unlabelled.png")
    data = opened(tmp_path)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert any("outside of class folders" in remark and "test/unlabelled.png" in remark for remark in data.remarks)


def test_a_class_may_be_called_train(tmp_path):
    data = opened(draw_classes(tmp_path, {"train": 4, "loader": 4}))
    assert data.class_names == ["loader", "train"]


def test_numbers_as_names_keep_their_order(tmp_path):
    assert opened(draw_classes(tmp_path, {"10": 2, "9": 2, "-1": 2})).class_names == ["-1", "9", "10"]


def test_folders_inside_a_class_and_capital_endings_and_unicode_names(tmp_path):
    draw(tmp_path / "Käfer 甲虫" / "2024" / "a.png")
    draw(tmp_path / "Käfer 甲虫" / "b.PNG")
    draw(tmp_path / "fly" / "c.jpeg")
    listing = read_folder(tmp_path)
    assert sorted(listing.names) == ["Käfer 甲虫/2024/a.png", "Käfer 甲虫/b.PNG", "fly/c.jpeg"]
    assert set(listing.labels) == {"Käfer 甲虫", "fly"}


def test_clutter_is_ignored_and_other_files_are_told(tmp_path):
    draw_classes(tmp_path, {"cat": 2, "dog": 2})
    for name in ("cat/.hidden.png", "cat/Thumbs.db", "cat/._0.png", ".git/x/0.png", "__MACOSX/cat/0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "cat" / "notes.txt").write_text("")
    (tmp_path / "bird").mkdir()
    listing = read_folder(tmp_path)
    assert len(listing) == 4
    assert listing.remarks == (
        "No images in bird.",
        "Not read, because the suffix is not that of an image: 1\u00a0file (.txt).",
    )


def test_a_list_beside_the_class_folders_is_pointed_at(tmp_path):
    draw_classes(tmp_path, {"images": 4})
    (tmp_path / "labels.csv").write_text("path,label\nimages/0.png,cat\n")
    remark = "Classes are named after folders; to take them from labels.csv, pass that file instead of the folder."
    assert read_folder(tmp_path).remarks == (remark,)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_remarks_can_be_stored_whatever_files_and_folders_are_called(tmp_path):
    draw_classes(tmp_path / "train", {"cat": 2, "dog": 2})
    draw_classes(tmp_path / "test", {"cat": 1, "dog": 1})
    (tmp_path / os.fsdecode(b"old\xff\x1b[31m")).mkdir()
    (tmp_path / "train" / "cat" / os.fsdecode(b"notes.t\xff\x1b[31m")).write_text("")
    remarks = "".join(read_folder(tmp_path).remarks)
    assert "old\ufffd\ufffd[31m" in remarks
    assert ".t\ufffd\ufffd[31m" in remarks
    remarks.encode()


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_data_whose_own_name_is_no_text_are_refused_at_once(tmp_path):
    place = tmp_path / os.fsdecode(b"photos\xff")
    draw_classes(place, {"cat": 2, "dog": 2})
    with pytest.raises(UsageError, match="photos\ufffd is not a valid text name"):
        opened(place)


def test_links_that_lead_back_are_followed_once(tmp_path):
    draw_classes(tmp_path / "photos", {"cat": 3})
    (tmp_path / "photos" / "cat" / "again").symlink_to(tmp_path / "photos" / "cat")
    (tmp_path / "photos" / "cat" / "self.png").symlink_to(tmp_path / "photos" / "cat" / "self.png")
    (tmp_path / "photos" / "dog").symlink_to(tmp_path / "photos" / "cat")
    listing = read_folder(tmp_path / "photos")
    assert [name for name in listing.names if "self" not in name] == [
        f"{c}/{i}.png" for c in ("cat", "dog") for i in range(3)
    ]


def test_names_that_no_screen_should_see_are_cleaned(tmp_path):
    draw_classes(tmp_path, {"evil\x1b[31m\nname": 2, "dog": 2})
    assert opened(tmp_path).class_names == ["dog", "evil\ufffd[31m\ufffdname"]


def test_folders_without_classes_or_images_are_refused(tmp_path):
    with pytest.raises(UsageError, match="has no images in class folders; it should look like"):
        opened(tmp_path)
    draw(tmp_path / "a.png")
    with pytest.raises(UsageError, match=r"1.image but no class folders"):
        opened(tmp_path)
    with pytest.raises(TailcloudError, match="does not exist"):
        opened(tmp_path / "absent")
    (tmp_path / "photos.zip").write_bytes(b"")
    with pytest.raises(UsageError, match="unpack archives first"):
        opened(tmp_path / "photos.zip")


def test_a_class_without_training_images_is_refused(tmp_path):
    draw_classes(tmp_path / "train", {"cat": 3})
    draw_classes(tmp_path / "test", {"cat": 3, "yak": 3})
    with pytest.raises(UsageError, match="class yak in test, but without a training image"):
        opened(tmp_path)


def test_mixed_sizes_come_at_the_median_of_the_shorter_sides(tmp_path):
    for number, size in enumerate([(10, 40), (20, 12), (12, 30)]):
        draw(tmp_path / "a" / f"{number}.png", size=size)
    assert opened(tmp_path).shape == (12, 12, 3)
    assert opened(tmp_path, size=20).shape == (20, 20, 3)


def test_large_images_come_at_64_pixels_and_say_so(tmp_path):
    for number in range(2):
        draw(tmp_path / "a" / f"{number}.jpg", size=(300, 200))
    data = opened(tmp_path)
    assert data.shape == (64, 64, 3)
    assert (
        "Images are read at 64×64 pixels, but half of them have 200 or more a side; data.size reads them larger."
        in data.remarks
    )


def test_a_crop_that_cuts_most_of_the_images_off_says_so(tmp_path):
    for number, size in enumerate([(400, 20), (20, 400), (20, 20)]):
        draw(tmp_path / "a" / f"{number}.png", size=size)
    cut = "reads only their center, 5% of a typical one; --set data.fit=pad or --set data.fit=squash"
    assert any(cut in remark for remark in opened(tmp_path).remarks)
    assert any(cut in remark for remark in opened(tmp_path, size=16).remarks)
    assert not any("center" in remark for remark in opened(tmp_path, fit="pad").remarks)
    draw(tmp_path / "a" / "3.png", size=(16, 9))
    draw(tmp_path / "a" / "4.png", size=(9, 16))
    assert not any("center" in remark for remark in opened(tmp_path).remarks)


def test_grey_images_have_one_channel_unless_one_has_colours(tmp_path):
    for number in range(4):
        draw(tmp_path / "a" / f"{number}.png", colour=90)
    assert opened(tmp_path).shape == (8, 8, 1)
    draw(tmp_path / "a" / "c.png")
    assert opened(tmp_path).shape == (8, 8, 3)


def test_fit_reaches_the_images_and_the_data_set(tmp_path):
    for number in range(2):
        draw(tmp_path / "a" / f"{number}.png", colour=200, size=(4, 8))
    padded = opened(tmp_path, size=8, fit="pad")
    assert padded.train.images[0, :, 0, 0].tolist() == [0, 0, 200, 200, 200, 200, 0, 0]
    assert padded.fit == "pad"
    assert opened(tmp_path, size=8).train.images.min() == 200


def test_the_fingerprint_follows_the_pixels_not_the_place(tmp_path):
    first = opened(draw_classes(tmp_path / "one", {"cat": 5, "dog": 5}))
    second = opened(draw_classes(tmp_path / "two", {"cat": 5, "dog": 5}))
    assert first.fingerprint == second.fingerprint
    draw(tmp_path / "two" / "cat" / "0.png")
    assert opened(tmp_path / "two").fingerprint != first.fingerprint


def test_groups_by_a_pattern_stay_in_one_part(tmp_path):
    for c in ("cat", "dog"):
        for number in range(40):
            draw(tmp_path / c / f"camera{number // 4}_{number}.png")
    data = hold_out(opened(tmp_path, group=r"(camera\d+)_"), 0.2)
    cameras = [
        {name.split("/")[1].split("_")[0] for name in names(split)} for split in (data.train, data.val, data.test)
    ]
    assert not cameras[0] & cameras[1] | cameras[0] & cameras[2] | cameras[1] & cameras[2]
    assert np.bincount(data.test.labels).tolist() == [8, 8]
    assert any("whole groups together" in remark for remark in data.remarks)


def test_patterns_that_cannot_work_are_refused(tmp_path):
    draw_classes(tmp_path, {"cat": 4})
    for pattern, sentence in [
        ("(", "not a regular expression"),
        ("cat", r"no \(…\)"),
        ("(zebra)", "matches no file name"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            opened(tmp_path, group=pattern)


def test_some_unreadable_images_are_left_out_and_named(tmp_path):
    draw_classes(tmp_path, {"cat": 30, "dog": 30})
    (tmp_path / "cat" / "0.png").write_bytes(b"not an image")
    whole = draw(tmp_path / "noise.png", size=(64, 64)).read_bytes()
    (tmp_path / "noise.png").unlink()
    (tmp_path / "dog" / "1.png").write_bytes(whole[: len(whole) // 2])
    data = opened(tmp_path, size=8)
    assert len(data.train) + len(data.test) == 58
    assert not {"cat/0.png", "dog/1.png"} & {*names(data.train), *names(data.test)}
    remark = next(remark for remark in data.remarks if "cannot be read" in remark)
    assert remark.startswith("2 of 60 images")
    assert "cat/0.png (it is not an image" in remark
    assert "dog/1.png" in remark


@pytest.mark.parametrize("cut", [0, 45])
def test_more_than_a_twentieth_unreadable_stops(cut, tmp_path):
    """Whether the header is gone, or only the pixels."""
    draw_classes(tmp_path, {"cat": 15, "dog": 15})
    for number in range(2):
        path = tmp_path / "cat" / f"{number}.png"
        path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(TailcloudError, match=r"2 of 30 images \(7 %, more than 5 %\) cannot be read: cat/0.png"):
        opened(tmp_path)


def test_images_beyond_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"cat": 10})
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 10 * 3 * 2 * 6**2)
    monkeypatch.setattr("tailcloud.data.readers.build_dataset.read_images", None)
    with pytest.raises(
        TailcloudError,
        match=r": 10 images at data.size = 8 with 3 channels need 3.84.kB .*; set data.size to 6 or less",
    ):
        opened(tmp_path, loader="resident")


def test_long_readings_say_how_far_they_are(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tailcloud.data.parallel_io.SECONDS_BETWEEN_NOTES", 0.0)
    draw_classes(tmp_path, {"cat": 70})
    with caplog.at_level(logging.INFO, "tailcloud"):
        opened(tmp_path)
    assert "64 of 70 image headers read" in caplog.messages
    assert "70 of 70 images read" in caplog.messages


def test_settings_of_own_images_are_refused_for_benchmarks():
    with pytest.raises(UsageError, match=r"data.size = 16 is for your own images"):
        open_dataset("digits-lt", options=ReadOptions(size=16))
