"""The benchmark of streamed data measures every way to have images, and says why it cannot."""

import json

import streaming

from helpers.drawing import draw_classes


def measured(tmp_path, *words):
    draw_classes(tmp_path / "photos", {"a": 20, "bb": 12, "ccc": 8}, size=(20, 16))
    file = tmp_path / "streaming.json"
    small = ["--size", "8", "--batch", "8", "--seconds", "0.1", "--warm-up", "1", "--backbone", "resnet8"]
    assert streaming.main([str(tmp_path / "photos"), *small, "--workers", "1", "--write", str(file), *words]) == 0
    return json.loads(file.read_text())


def test_one_command_gives_a_table_and_a_record(tmp_path, capsys):
    record = measured(tmp_path, "--images", "24", "--rounds", "3")
    assert [row["name"] for row in record["rows"]] == list(streaming.ROWS)
    assert all(row["images_per_second"] > 1 and row["reason"] is None for row in record["rows"])
    assert all(row["images_per_second"] == sorted(row["turns"])[1] for row in record["rows"])
    assert (record["images"], record["workers"], record["backbone"]) == (24, 1, "resnet8")
    assert record["machine"]["torch"]
    assert "100 %" in capsys.readouterr().out


def test_a_row_that_fails_says_why_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.data.loaders.cache.SHARED_MEMORY", tmp_path / "nowhere")
    rows = {row["name"]: row for row in measured(tmp_path)["rows"]}
    assert "name a folder" in rows["cache in memory"]["reason"]
    assert rows["on the device"]["images_per_second"] > 1


def test_without_images_random_ones_are_read(tmp_path):
    file = tmp_path / "streaming.json"
    words = ["--images", "200", "--size", "16", "--batch", "8", "--seconds", "0.1", "--backbone", "resnet8"]
    assert streaming.main([*words, "--rounds", "1", "--workers", "1", "--write", str(file)]) == 0
    record = json.loads(file.read_text())
    assert (record["data"], record["workers"]) == ("random images", 1)
    assert record["rows"][0]["images_per_second"] > 1


def test_data_that_are_not_there_are_a_sentence(tmp_path, capsys):
    assert streaming.main([str(tmp_path / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err
