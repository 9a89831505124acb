"""Surveys: everything is looked at once, and what training would refuse is named."""

import numpy as np
import pytest

from helpers.drawing import draw, draw_classes
from tailcloud.data import ReadOptions, image_io, open_dataset
from tailcloud.data.image_io import Header
from tailcloud.data.inspection import survey
from tailcloud.data.inspection.duplicates import find_duplicates
from tailcloud.data.inspection.findings import leaks, listed_pairs, size_facts, small_class_sentences
from tailcloud.data.inspection.survey import UNREAD, Survey
from tailcloud.errors import TailcloudError


@pytest.fixture
def photos(tmp_path):
    return draw_classes(tmp_path / "photos", {"cat": 30, "lynx": 6}, size=(24, 20))


def refusals(place, options=ReadOptions()):  # noqa: B008
    seen = survey(str(place), options=options)
    assert seen.dataset is None
    return seen


@pytest.mark.parametrize(
    "options", [ReadOptions(), ReadOptions(size=5), ReadOptions(min_count=8), ReadOptions(group="([0-9])[.]")]
)
def test_a_survey_has_the_data_that_training_would_have(photos, options):
    (photos / "cat" / "bad.png").write_text("no image")
    seen, opened = survey(str(photos), options=options), open_dataset(str(photos), options=options)
    assert seen.refusals == []
    assert seen.dataset.fingerprint == opened.fingerprint
    assert seen.dataset.test.names.tolist() == opened.test.names.tolist()
    assert set(seen.remarks) == {remark for remark in opened.remarks if "cannot be read" not in remark}
    assert seen.broken == {"cat/bad.png": "it is not an image, or of an unsupported format"}
    assert seen.counts()["train"].tolist() == opened.profile.counts.tolist()
    assert [seen.name(row) for row in range(3)] == opened.train.names[:3].tolist()


def test_every_file_is_decoded_once(photos, monkeypatch):
    decoded, pixels = [], image_io._pixels
    monkeypatch.setattr(image_io, "_pixels", lambda *words: decoded.append(words[0]) or pixels(*words))
    find_duplicates(survey(str(photos)).images)
    assert len(decoded) == len(set(decoded)) == 36


def test_built_in_data_are_surveyed_too():
    seen = survey("digits-lt")
    assert len(seen.labels) == 831
    assert [seen.name(0), seen.name(331)] == ["train 0", "test 0"]
    assert seen.headers == ()


def test_a_class_that_is_only_tested_is_named_and_the_rest_shown(tmp_path):
    draw(tmp_path / "train/cat/1.png"), draw(tmp_path / "test/cat/2.png"), draw(tmp_path / "test/yak/3.png")
    seen = refusals(tmp_path)
    assert "class yak in test, but without a training image" in seen.refusals[0]
    assert {part: counts.tolist() for part, counts in seen.counts().items()} == {"train": [1, 0], "test": [1, 1]}
    assert leaks(seen, find_duplicates(seen.images)) == {"test": 2}


def test_too_few_images_to_part_are_all_for_training(tmp_path):
    seen = refusals(draw_classes(tmp_path, {"cat": 1, "dog": 1}))
    assert "no class of which images could be set aside" in seen.refusals[0]
    assert list(seen.splits) == ["train", "train"]


def test_many_broken_files_are_all_named(photos):
    for number in range(9):
        (photos / "lynx" / f"bad {number}.png").write_text("no image")
    seen = refusals(photos)
    assert len(seen.refusals) == 1
    assert "more than 5 %" in seen.refusals[0]
    assert len(seen.broken) == 9
    assert seen.counts()["train"].sum() + seen.counts()["test"].sum() == 36


def test_files_that_break_while_they_are_decoded_are_counted_with_the_others(photos):
    for number in range(5):
        whole = draw(photos / "lynx" / f"cut {number}.png", size=(90, 90)).read_bytes()
        (photos / "lynx" / f"cut {number}.png").write_bytes(whole[:60])
    for number in range(3):
        (photos / "lynx" / f"bad {number}.png").write_text("no image")
    seen = refusals(photos)
    assert len(seen.refusals) == 1
    assert "8 of 44 images" in seen.refusals[0]
    assert len(seen.labels) == sum(map(len, seen.images)) == 36
    assert [name for name in seen.broken if "cut" in name] == [f"lynx/cut {number}.png" for number in range(5)]


def test_data_that_do_not_fit_are_looked_at_as_thumbnails(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"cat": 9, "lynx": 6}, size=(40, 40))
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    seen = survey(str(tmp_path))
    assert any("are free: they stay in their files" in remark for remark in seen.remarks)
    assert not seen.refusals
    assert seen.images[0].shape == (15, 16, 16, 3)
    assert seen.dataset.shape == (40, 40, 3)
    assert "are free; use fewer" in refusals(tmp_path, ReadOptions(loader="resident")).refusals[0]


def test_data_that_do_not_fit_and_have_broken_files_are_those_of_training(tmp_path, monkeypatch):
    draw_classes(tmp_path, {"cat": 30, "lynx": 6}, size=(40, 40))
    (tmp_path / "cat" / "bad.png").write_text("no image")
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    seen, opened = survey(str(tmp_path)), open_dataset(str(tmp_path))
    assert seen.dataset.fingerprint == opened.fingerprint
    assert seen.dataset.remarks == opened.remarks
    assert len(seen.labels) == 36
    assert list(seen.broken) == ["cat/bad.png"]


def test_of_streamed_data_only_the_names_are_looked_at(tmp_path):
    draw_classes(tmp_path, {"cat": 9, "lynx": 6}, size=(40, 40))
    seen = survey(str(tmp_path), options=ReadOptions(loader="stream"))
    assert {part: counts.tolist() for part, counts in seen.counts().items()} == {"train": [7, 5], "test": [2, 1]}
    assert seen.remarks[-1] == UNREAD
    assert not seen.images


def test_several_refusals_are_all_told(photos, monkeypatch):
    monkeypatch.setattr("tailcloud.data.memory.available_memory", lambda: 1000)
    assert len(refusals(photos, ReadOptions(min_count=99, loader="resident")).refusals) == 2


def test_nothing_to_look_at_is_an_error(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_text("")
    with pytest.raises(TailcloudError, match="1 of 1 images"):
        survey(str(tmp_path))
    with pytest.raises(TailcloudError, match="does not exist"):
        survey(str(tmp_path / "nowhere"))


def test_arrays_that_training_refuses_are_counted(tmp_path):
    file = tmp_path / "arrays.npz"
    np.savez(
        file, x_train=np.zeros((3, 8, 8), np.float32) - 1, y_train=[0, 0, 4], x_test=np.zeros((1, 8, 8)), y_test=[4]
    )
    seen = refusals(file)
    assert "floats from -1" in seen.refusals[0]
    assert (seen.class_names, seen.counts()["train"].tolist()) == (["0", "4"], [2, 1])
    assert find_duplicates(seen.images).sets(len(seen.labels)).tolist() == [0, 1, 2, 3]
    np.savez(file, x=np.zeros((3, 8, 8), np.float32) - 1, y=["cat", "cat", "lynx"])
    assert refusals(file).counts()["train"].tolist() == [2, 1]
    np.savez(file, x=np.zeros((0, 8, 8), np.uint8), y=np.zeros(0, int))
    with pytest.raises(TailcloudError, match="has the shape"):
        survey(str(file))
    np.savez(file, x=np.zeros((4, 8, 8), np.uint8), y=np.eye(4, dtype=int))
    with pytest.raises(TailcloudError, match="one-hot"):
        survey(str(file))


def test_pairs_across_parts_come_first_then_those_of_two_classes(tmp_path):
    noise = np.random.RandomState(0).randint(0, 256, (4, 12, 12, 3), dtype=np.uint8)
    images = noise[[0, 0, 1, 1, 2, 2, 3]]
    seen = Survey("x", ["a", "b"], np.array([0, 0, 0, 1, 1, 1, 0]), [*["train"] * 5, "test", "test"], images=[images])
    found = find_duplicates(seen.images)
    assert [(pair.first, pair.second) for pair in listed_pairs(seen, found)] == [(4, 5), (2, 3), (0, 1)]
    assert leaks(seen, found) == {"test": 1}


def test_classes_too_small_to_validate_or_judge_are_named():
    parts = [*["train"] * 17, *["test"] * 12]
    seen = Survey("x", ["a", "b", "untested"], np.array([*[0] * 10, *[1] * 3, *[2] * 4, *[0] * 11, 1]), parts)
    validate, judge = small_class_sentences(seen)
    assert validate.startswith("class b: fewer than 4 training images")
    assert judge.startswith("class b: fewer than 10 test images")


def test_sizes_and_kinds_of_files():
    facts = dict(size_facts([Header(20, 10, "RGB"), Header(5, 5, "L"), Header(30, 30, "RGB")]))
    assert facts["smallest, median, largest"] == "5×5, 10×20, 30×30"
    assert facts["color modes"] == "RGB 2, L 1"
    assert facts["not square"] == "1 of 3"


def test_images_without_a_test_split_are_counted_once(tmp_path):
    draw_classes(tmp_path, {"cat": 6, "dog": 3})
    surveyed = survey(str(tmp_path), options=ReadOptions(test=0.0))
    assert list(surveyed.counts()) == ["train"]
    assert surveyed.counts()["train"].tolist() == [6, 3]
