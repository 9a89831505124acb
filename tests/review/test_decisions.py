"""Decisions are saved at once, and the list that follows can be trained on from any folder."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tailcloud.data import ReadOptions, open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.review import decisions as module
from tailcloud.review.decisions import Decisions, check_list


def rows(decisions):
    with decisions.out.open(newline="") as file:
        return {Path(row.pop("path")).name: row for row in csv.DictReader(file)}


def test_the_list_has_every_image_with_its_split(decisions, images, items):
    decisions.decide(items[0], 4, "relabel", "cat")
    decisions.decide(items[1], 0, "drop")
    decisions.decide(items[2], 1, "keep")
    found = rows(decisions)
    assert set(found) == set(images.names) - {images.names[0]}
    assert found[images.names[4]] == {"label": "cat", "split": "train"}
    assert found[images.names[1]] == {"label": "cat", "split": "train"}
    assert found[images.names[9]] == {"label": "lynx", "split": "test"}


def test_the_list_is_data_from_any_folder(decisions, items, tmp_path, monkeypatch):
    decisions.decide(items[0], 4, "relabel", "puma & <b>co</b>")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    dataset = open_dataset("../out/review.csv", options=ReadOptions(size=8))
    assert dataset.class_names == ["cat", "lynx", "puma & <b>co</b>"]
    assert dataset.profile.counts.tolist() == [4, 1, 3]
    assert len(dataset.test) == 2


def test_groups_stay_groups(images, items, tmp_path):
    grouped = replace(images, groups=np.arange(10) // 2)
    decisions = Decisions.load(grouped, tmp_path / "review.csv")
    decisions.decide(items[0], 4, "drop")
    dataset = open_dataset(str(decisions.out), options=ReadOptions(size=8, group=module.GROUP_COLUMN))
    assert len(np.unique(dataset.train.groups)) == 4


def test_a_second_review_goes_on(decisions, images, items):
    decisions.decide(items[0], 4, "relabel", "cat")
    decisions.decide(items[2], 6, "drop")
    again = Decisions.load(images, decisions.out)
    assert again.of(items[0]).label == "cat"
    assert again.of(items[1]) is None
    assert (again.of(items[2]).image, again.of(items[2]).action) == (images.names[6], "drop")
    again.decide(items[1], 0, "keep")
    assert len(again.made) == 3
    assert images.names[6] not in rows(again)


def test_decisions_follow_images_that_were_moved(decisions, images, items, tmp_path):
    decisions.decide(items[0], 4, "drop")
    (tmp_path / "photos").rename(tmp_path / "moved")
    moved = replace(images, paths=[tmp_path / "moved" / path.name for path in images.paths])
    again = Decisions.load(moved, decisions.out)
    again.decide(items[1], 0, "keep")
    assert images.names[4] not in rows(again)
    assert "moved" in decisions.out.read_text()


def test_undo_takes_back_the_last_and_then_the_one_before(decisions, images, items):
    decisions.decide(items[0], 4, "drop")
    decisions.decide(items[1], 0, "drop")
    decisions.decide(items[0], 4, "keep")  # in the place of the first
    assert len(decisions.made) == 2
    assert decisions.undo().action == "keep"
    assert decisions.undo().image == images.names[0]
    assert decisions.undo() is None
    assert len(rows(decisions)) == 10


def test_a_pair_and_a_label_of_the_same_image_are_two_questions(decisions, images, items):
    doubtful = replace(items[0], image=1)
    decisions.decide(doubtful, 1, "relabel", "lynx")
    decisions.decide(items[2], 1, "keep")
    assert decisions.of(doubtful).action == "relabel"
    assert rows(decisions)[images.names[1]]["label"] == "lynx"


def test_what_cannot_be_saved_was_not_decided(decisions, images, items, monkeypatch):
    decisions.decide(items[0], 4, "drop")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(OSError, match="No space"):
        decisions.decide(items[1], 0, "drop")
    assert decisions.of(items[1]) is None
    assert images.names[4] not in rows(decisions)


def test_a_class_that_loses_its_last_training_image_is_named(decisions, items):
    decisions.decide(replace(items[0], image=4), 4, "drop")
    assert decisions.remarks() == []
    decisions.decide(replace(items[0], image=5), 5, "relabel", "cat")
    (remark,) = decisions.remarks()
    assert remark.startswith("lynx: no training image is left")


@pytest.mark.parametrize("place", ["list.txt", "here.csv", "folder.csv"])
def test_other_files_are_not_overwritten(tmp_path, place):
    (tmp_path / "here.csv").write_text("path,label\n")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError):
        check_list(tmp_path / place)


@pytest.mark.parametrize("content", ["{", '{"format": 1}', '{"format": 1, "decisions": [{"image": 3}]}'])
def test_a_damaged_record_is_refused(decisions, images, items, content):
    decisions.decide(items[0], 4, "drop")
    decisions.record.write_text(content)
    with pytest.raises(TailcloudError, match=r"review\.json"):
        Decisions.load(images, decisions.out)


def test_the_record_is_plain_json(decisions, images, items):
    decisions.decide(items[0], 4, "relabel", "cat")
    assert json.loads(decisions.record.read_text())["decisions"] == [
        {"image": images.names[4], "action": "relabel", "label": "cat", "other": None}
    ]
