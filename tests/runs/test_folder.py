"""Run folders: never overwritten, held by one process, honest about damage."""

import errno
import json
import os
import shlex
import subprocess

import pytest
from faulty_disk import Fault, FaultyDisk

from helpers.runs import small_recipe
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.result import Result, parse_result


def test_an_existing_run_is_never_overwritten(tmp_path):
    RunFolder(tmp_path / "run").create(small_recipe())
    with pytest.raises(TailcloudError, match="already holds a run; continue it with --resume"):
        RunFolder(tmp_path / "run").create(small_recipe())


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(TailcloudError, match="is not empty and holds no run"):
        RunFolder(tmp_path).create(small_recipe())


def test_a_second_process_is_refused_and_the_lock_goes_with_its_holder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with (
        folder.locked(),
        pytest.raises(TailcloudError, match="in use by another"),
        RunFolder(tmp_path / "run").locked(),
    ):
        pass
    with folder.locked():
        pass


def test_only_what_a_killed_process_left_is_removed(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(small_recipe())
    left, mine = folder.path / f".tmp-{'0a' * 16}", folder.path / "checkpoint" / ".tmp-notes.txt"
    cache = folder.path / f".tmp-{'0b' * 16}-{'0c' * 16}"
    cache.mkdir()
    mine.parent.mkdir()
    for file in (left, mine, cache / "images.u8"):
        file.write_text("half")
    with folder.locked():
        assert not left.exists()
        assert mine.read_text() == (cache / "images.u8").read_text() == "half"


def test_a_file_of_the_user_that_looks_temporary_makes_a_folder_not_empty(tmp_path):
    (tmp_path / ".tmp-notes.txt").write_text("years of work")
    with pytest.raises(TailcloudError, match="is not empty and holds no run"):
        RunFolder(tmp_path).create(small_recipe())


def test_a_resolved_recipe_survives_the_round_trip(tmp_path):
    recipe = small_recipe({"stage2": {"sampler": {"name": "cben", "a": 0.99}}})
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe, "tailcloud train digits-lt/gcl")
    assert folder.recipe() == recipe
    assert folder.command() == "tailcloud train digits-lt/gcl"


@pytest.mark.parametrize("name", ["my\nphotos", "a'b\r\x00c", "$'\\x0a'"])
def test_a_command_with_line_breaks_can_be_resumed_and_repeated_in_a_shell(name, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(small_recipe(), shlex.join(["tailcloud", "train", "--data", name, "--plugin", name]))
    assert folder.recipe() == small_recipe()
    assert folder.plugins() == [name]
    if "\x00" not in name:
        words = subprocess.run(["bash", "-c", f"printf '%s|' {folder.command()}"], capture_output=True, check=True)
        assert words.stdout.decode().split("|")[3] == name


def test_a_cache_that_was_being_filled_in_the_folder_does_not_stop_a_resumed_run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    filled = folder.path / "cache" / f".tmp-{'a' * 32}-{'b' * 32}"
    filled.mkdir(parents=True)
    (filled / "images.u8").write_bytes(b"half")
    (folder.path / f".tmp-{'c' * 32}").write_bytes(b"half")
    with folder.locked():
        assert [file.name for file in folder.path.iterdir() if file.name != ".lock"] == ["cache"]


@pytest.mark.parametrize("text", ["[1, 2]", '"epoch"', "[" * 200_000, "1" * 5_000])
def test_a_log_line_that_is_no_epoch_is_dropped(text, tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_log({"stage": "stage1", "epoch": 1})
    with folder.log_file.open("a") as file:
        file.write(text + "\n")
    assert [line["epoch"] for line in folder.log()] == [1]


def test_a_log_line_that_was_cut_short_is_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_log({"stage": "stage1", "epoch": 1})
    folder.append_log({"stage": "stage1", "epoch": 2})
    with folder.log_file.open("a") as file:
        file.write('{"stage": "sta')
    assert [line["epoch"] for line in folder.log()] == [1, 2]
    folder.truncate_log(lambda line: line["epoch"] <= 1)
    folder.append_log({"stage": "stage1", "epoch": 2})
    assert [line["epoch"] for line in folder.log()] == [1, 2]


def test_a_log_line_that_is_no_text_is_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_log({"stage": "stage1", "epoch": 1})
    with folder.log_file.open("ab") as file:
        file.write(b'{"stage": "\xff"}\n')
    assert [line["epoch"] for line in folder.log()] == [1]


def test_a_log_line_that_did_not_fit_on_the_disk_is_not_written_twice(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_log({"stage": "stage1", "epoch": 1})
    with FaultyDisk(tmp_path, Fault(errno.ENOSPC), 1).installed(), pytest.raises(OSError, match="No space"):
        folder.append_log({"stage": "stage1", "epoch": 2})
    assert [line["epoch"] for line in folder.log()] == [1]
    assert folder.log_file.read_text().count("\n") == 1


def test_checkpoints_that_are_a_file_are_refused_before_anything_is_lost(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_log({"stage": "stage1", "epoch": 1})
    folder.checkpoints.write_text("")
    with pytest.raises(TailcloudError, match="is a file, and a run keeps its checkpoints in a folder"), folder.locked():
        pass
    assert len(folder.log()) == 1


@pytest.mark.parametrize("name", [".lock", "checkpoint", "log.jsonl", "tensorboard"])
def test_nothing_is_written_through_a_link_that_leads_out_of_the_folder(name, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "letters").write_text("years of work")
    (tmp_path / "run" / name).symlink_to(tmp_path / "letters")
    with pytest.raises(TailcloudError, match="writes only inside its folder"), RunFolder(tmp_path / "run").locked():
        pass
    assert (tmp_path / "letters").read_text() == "years of work"


@pytest.mark.parametrize("name", [".lock", "log.jsonl", "result.json"])
def test_a_pipe_in_the_folder_is_not_waited_for(name, tmp_path):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / name)
    with pytest.raises(OSError, match="a pipe or a device"), RunFolder(tmp_path / "run").locked():
        pass


def test_a_folder_that_is_itself_behind_a_link_is_fine(tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    with RunFolder(tmp_path / "run").locked():
        pass


def test_a_recipe_with_an_unknown_word_is_refused_in_one_sentence(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(small_recipe(), "tailcloud train")
    with folder.recipe_file.open("a") as file:
        file.write("\n[watch]\nexamples = true\n")
    with pytest.raises(UsageError, match="watch") as refused:
        folder.recipe()
    assert "\n" not in str(refused.value)


def test_the_result_of_a_folder_is_typed_and_only_that_of_a_finished_run(finished_run, tmp_path):
    result = RunFolder(finished_run).result()
    assert isinstance(result, Result)
    assert result.content() == parse_result(json.loads((finished_run / "result.json").read_text())).content()
    with pytest.raises(TailcloudError, match="holds no finished run"):
        RunFolder(tmp_path).result()
