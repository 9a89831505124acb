"""Files are whole or absent, whatever happens while they are written."""

import errno
import fcntl
import json
import os
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcloud.errors import TailcloudError, explained
from tailcloud.files import (
    expand_home,
    is_temporary,
    json_text,
    named_in_errors,
    new_text_file,
    read_json,
    write_atomically,
    write_json,
)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")
    return path


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format": 1, "x": ' + "1" * 5_000 + "}"])
def test_nesting_and_numbers_beyond_all_bounds_are_damage(text, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(TailcloudError, match="damaged or was not written by tailcloud"):
        read_json(tmp_path / "model.json")


def test_what_is_no_character_is_written_and_read_back(tmp_path):
    write_json(tmp_path / "result.json", {"remarks": ["no image in \udcff"]})
    assert read_json(tmp_path / "result.json")["remarks"] == ["no image in \udcff"]


def test_text_and_bytes_arrive_whole_and_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    write_atomically(path, "größer")
    assert path.read_bytes() == "größer".encode()
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert names(path.parent) == ["c.txt"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_on_disk(old, monkeypatch):
    seen, flush = [], os.fsync

    def look(handle):
        flush(handle)
        seen.append((old.read_text(), os.fstat(handle).st_size))

    monkeypatch.setattr(os, "fsync", look)
    write_atomically(old, "new content")
    assert seen[0] == ("old", len("new content"))
    assert old.read_text() == "new content"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_content_and_nothing_else(old, monkeypatch, call, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        write_atomically(old, "new")
    assert old.read_text() == "old"
    assert names(old.parent) == ["result.json"]


def test_a_failing_first_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "new", "new")
    assert names(tmp_path) == []


def test_a_full_disk_is_a_sentence_with_the_name_of_the_file(old, monkeypatch):
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(old, "new")
    assert caught.value.filename == str(old)
    assert f"the disk is full: {old} could not be written" in str(explained(caught.value))


def write_while_another_does(path):
    with new_text_file(path) as file:
        file.write("ours")
        path.write_text("mine")


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_in_the_meantime_is_not_overwritten_and_nothing_is_lost(tmp_path, monkeypatch, links):
    def no_link(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_link)
    path = tmp_path / "birds.csv"
    (tmp_path / "birds-2.csv").write_text("mine too")
    with pytest.raises(TailcloudError, match=r"birds.csv appeared .* the new file is .*birds-3.csv"):
        write_while_another_does(path)
    kept = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert kept == {"birds.csv": "mine", "birds-2.csv": "mine too", "birds-3.csv": "ours"}


def test_a_link_that_leads_nowhere_is_a_file_that_exists(tmp_path):
    (tmp_path / "birds.csv").symlink_to("gone")
    with pytest.raises(TailcloudError, match="exists already"), new_text_file(tmp_path / "birds.csv"):
        pass


def test_only_files_that_tailcloud_names_are_temporary(tmp_path):
    ours = tmp_path / f".tmp-{'0a' * 16}"
    others = [tmp_path / name for name in (".tmp-notes.txt", ".tmp-", f"{ours.name}.bak", f".tmp-{'0A' * 16}")]
    for file in (ours, *others):
        file.write_text("")
    (tmp_path / f".tmp-{'0b' * 16}").mkdir()
    (tmp_path / f".tmp-{'0c' * 16}").symlink_to(ours)
    assert list(filter(is_temporary, tmp_path.iterdir())) == [ours]


def killed_while_it_writes(path):
    """A process that dies before the file has its name."""
    if not (child := os.fork()):
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        write_atomically(path, "half")
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_the_next_file_takes_away_what_a_killed_process_left(tmp_path):
    killed_while_it_writes(tmp_path / "report.html")
    assert [name[:5] for name in names(tmp_path)] == [".tmp-"]
    (tmp_path / ".tmp-notes.txt").write_text("the user's")
    write_atomically(tmp_path / "report.html", "whole")
    assert sorted(names(tmp_path)) == [".tmp-notes.txt", "report.html"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs file locks")
def test_what_another_process_is_writing_stays(tmp_path):
    with new_text_file(tmp_path / "long.csv") as file:
        file.write("one\n")
        file.flush()
        write_atomically(tmp_path / "short.json", "{}")
        file.write("two\n")
    assert (tmp_path / "long.csv").read_text() == "one\ntwo\n"
    assert sorted(names(tmp_path)) == ["long.csv", "short.json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs file locks")
def test_a_file_that_was_taken_for_a_leftover_is_begun_again(tmp_path, monkeypatch):
    lock, taken = fcntl.flock, []

    def late(file, how):
        if not taken:
            taken.append(file.name)
            Path(file.name).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_atomically(tmp_path / "report.html", "whole")
    assert taken
    assert (tmp_path / "report.html").read_text() == "whole"
    assert names(tmp_path) == ["report.html"]


def test_a_disk_that_turns_read_only_is_the_error_that_is_told(old, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fsync", read_only)
    monkeypatch.setattr(os, "unlink", read_only)
    with pytest.raises(OSError, match="Read-only") as caught:
        write_atomically(old, "new")
    assert caught.value.filename == str(old)


def test_only_the_own_home_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [expand_home(text) for text in ("~", "~/photos")] == [tmp_path, tmp_path / "photos"]
    for text in ("./~root", "~root", "./~/photos", "photos/~"):
        assert expand_home(text) == Path(text)


def test_an_error_without_a_file_name_gets_one(tmp_path):
    with pytest.raises(OSError, match="No space") as caught, named_in_errors(tmp_path / "log"):
        no_room()
    assert caught.value.filename == str(tmp_path / "log")
    assert caught.value.errno == errno.ENOSPC


def test_other_errors_pass_as_they_are(tmp_path):
    with pytest.raises(ValueError, match="mine"), named_in_errors(tmp_path):
        raise ValueError("mine")


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", "content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_record_comes_back_and_others_are_refused_in_a_sentence(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, {"name": "größer"})
    assert read_json(path) == {"format": 1, "name": "größer"}
    bad = {
        b'{"format": 1': "is not a JSON file",
        b"\xff\xfe": "is not a JSON file",
        b"[1]": "is not an object",
        b'{"format": 2}': "has format 2",
    }
    for content, sentence in bad.items():
        path.write_bytes(content)
        with pytest.raises(TailcloudError, match=sentence):
            read_json(path)
    with pytest.raises(TailcloudError, match="is missing"):
        read_json(tmp_path / "nowhere.json")


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
CONTENT = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(CONTENT)
def test_what_is_laid_out_for_people_is_the_same_json(content):
    assert json.loads(json_text(content)) == content


def test_a_matrix_is_a_row_a_line():
    text = json_text({"confusion": [[1, 0], [2, 3]], "names": ["a", "b"], "empty": {}, "none": []})
    assert (
        text
        == """{
 "confusion": [
  [1, 0],
  [2, 3]
 ],
 "names": ["a", "b"],
 "empty": {},
 "none": []
}"""
    )
