"""``tailcloud data verify`` on images in files: what is broken is named, with the reason, in a file of its own."""

import csv
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from helpers.drawing import draw_classes
from tailcloud.cli import verify
from tailcloud.cli.data import app
from tailcloud.data.inspection import verify as checking
from tailcloud.errors import TailcloudError, UsageError


def run(*arguments):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def rows_of(report):
    return list(csv.reader(report.read_text().splitlines()))


@pytest.fixture
def photos(tmp_path):
    return draw_classes(tmp_path / "photos", {"cat": 80, "lynx": 5}, size=(20, 20))


@pytest.fixture
def damaged(photos):
    whole = (photos / "cat" / "7.png").read_bytes()
    (photos / "cat" / "7.png").write_bytes(whole[: len(whole) // 2])
    (photos / "lynx" / "1.png").write_bytes(b"")
    return photos


def test_whole_files_are_ok_and_no_report_is_written(photos):
    result = run(photos)
    assert result.exit_code == 0, result.exception
    assert result.output == f"OK: {photos} has 85\u00a0image files, and all can be read\n"
    assert [path.name for path in photos.parent.iterdir()] == ["photos"]


def test_broken_files_are_named_in_order_with_their_reasons(damaged):
    result = run(damaged)
    assert isinstance(result.exception, TailcloudError)
    assert result.exception.exit_code == 1
    report = damaged.parent / "photos-broken.csv"
    assert f"2 of 85\u00a0files cannot be read: {damaged}/cat/7.png (it is " in str(result.exception)
    assert str(result.exception).endswith(f"; the full list is in {report}")
    head, first, second = rows_of(report)
    assert head == ["path", "reason"]
    assert first[0] == str(damaged / "cat" / "7.png")
    assert second == [str(damaged / "lynx" / "1.png"), "it is empty (0 bytes)"]


def test_a_report_is_renewed_and_other_files_are_not_touched(damaged, tmp_path):
    report = tmp_path / "broken.csv"
    run(damaged, "--report", report)
    assert len(rows_of(report)) == 3
    draw_classes(damaged, {"cat": 8, "lynx": 5})
    assert run(damaged, "--report", report).exit_code == 0
    assert rows_of(report) == [["path", "reason"]]
    mine = tmp_path / "mine.csv"
    mine.write_text("a,b\n")
    assert isinstance(run(damaged, "--report", mine).exception, UsageError)
    assert isinstance(run(damaged, "--report", tmp_path).exception, UsageError)
    assert mine.read_text() == "a,b\n"


@pytest.mark.parametrize("text", ["path,reason,notes\n1.png,empty,asked Ann\n", "path,reason\n1.png,empty,Ann\n"])
def test_a_report_with_notes_is_not_touched(text, damaged, tmp_path):
    notes = tmp_path / "notes.csv"
    notes.write_text(text)
    assert isinstance(run(damaged, "--report", notes).exception, UsageError)
    draw_classes(damaged, {"cat": 8, "lynx": 5})
    assert isinstance(run(damaged, "--report", notes).exception, UsageError)
    assert notes.read_text() == text


@pytest.mark.parametrize("broken", [True, False])
def test_a_file_that_appears_while_images_are_checked_is_not_replaced(broken, photos, tmp_path, monkeypatch):
    place, checked = tmp_path / "broken.csv", checking.broken_files
    if broken:
        (photos / "cat" / "7.png").write_bytes(b"")

    def meanwhile(*arguments):
        place.write_text("mine")
        yield from checked(*arguments)

    monkeypatch.setattr(checking, "broken_files", meanwhile)
    result = run(photos, "--report", place)
    assert (f"because {place} cannot be written (File exists)" in str(result.exception)) == broken
    assert place.read_text() == "mine"


def test_a_report_that_cannot_be_written_is_printed(damaged, tmp_path):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "broken.csv"
    result = run(damaged, "--report", place)
    assert isinstance(result.exception, TailcloudError)
    assert f"the full list is above, because {place} cannot be written (" in str(result.exception)
    assert [line[0] for line in csv.reader(result.stdout.splitlines())] == [
        "path",
        str(damaged / "cat" / "7.png"),
        str(damaged / "lynx" / "1.png"),
    ]


@pytest.mark.parametrize("name", ["l.txt", "w.txt", "l.csv"])
def test_lists_are_checked_file_by_file(name, damaged):
    head, between = ("path,label\n", ",") if name == "l.csv" else ("", " ")
    label = "word" if name == "w.txt" else "0"
    paths = ["photos/cat/1.png", "photos/lynx/1.png", "photos/none.png", "photos/cat"]
    (damaged.parent / name).write_text(head + "".join(f"{path}{between}{label}\n" for path in paths))
    result = run(damaged.parent / name)
    assert "3 of 4\u00a0files cannot be read" in str(result.exception)
    rows = rows_of(damaged.parent / f"{name[0]}-broken.csv")[1:]
    assert {row[0].rpartition("photos/")[2]: row[1] for row in rows} == {
        "lynx/1.png": "it is empty (0 bytes)",
        "none.png": "it does not exist",
        "cat": "it is not a file",
    }


def test_a_large_benchmark_is_checked_part_by_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_classes(tmp_path / "train", {"a": 3})
    draw_classes(tmp_path / "val", {"a": 2})
    (tmp_path / "Places_LT_train.txt").write_text("".join(f"train/a/{n}.png 0\n" for n in range(4)))
    (tmp_path / "Places_LT_test.txt").write_text("".join(f"val/a/{n}.png 0\n" for n in range(2)))
    result = run("places-lt", "--root", tmp_path)
    assert "places-lt: 1 of 6\u00a0files cannot be read" in str(result.exception)
    assert str(result.exception).endswith("; the full list is in places-lt-broken.csv")
    assert rows_of(tmp_path / "places-lt-broken.csv")[1] == [
        str(tmp_path / "train" / "a" / "3.png"),
        "it does not exist",
    ]
    line = next(
        line
        for line in CliRunner().invoke(app, ["ls", "--root", str(tmp_path)]).output.splitlines()
        if "places" in line
    )
    assert line.split() == ["places-lt", "365", "62,500", "+", "36,500", "by", "hand", "yes"]


def test_cells_are_no_formulas(tmp_path, monkeypatch):
    draw_classes(tmp_path / "photos", {"cat": 3})
    (tmp_path / "photos" / "cat" / "=1+1.png").write_text("")
    monkeypatch.chdir(tmp_path / "photos" / "cat")
    (tmp_path / "photos" / "cat" / "l.txt").write_text("=1+1.png 0\n")
    run("l.txt")
    assert rows_of(tmp_path / "photos" / "cat" / "l-broken.csv")[1][0] == "'=1+1.png"


def test_arrays_are_opened_and_take_no_report(tmp_path):
    import numpy as np

    np.savez(tmp_path / "x.npz", x=np.zeros((8, 4, 4), np.uint8), y=np.arange(8) % 2)
    assert run(tmp_path / "x.npz").output.startswith("OK: ")
    assert isinstance(run(tmp_path / "x.npz", "--report", "r.csv").exception, UsageError)


def test_progress_has_rate_and_time_left(photos, monkeypatch):
    monkeypatch.setattr(verify, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(checking, "BLOCK", 17)
    lines = [line for line in run(photos).output.splitlines() if line.startswith("note:")]
    assert len(lines) == 5
    assert lines[-1].startswith("note: 85 of 85 files checked, ")
    assert lines[-1].endswith(" a second, 0.0\u00a0s left")


def test_ctrl_c_ends_with_a_sentence_and_what_was_found(damaged):
    code = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
        "import tailcloud.cli.verify as c, tailcloud.data.inspection.verify as v\ncheck = v._check_file\n"
        "v._check_file = lambda path: (time.sleep(0.05), check(path))[1]\nv.BLOCK = 2\nv.THREADS = 1\n"
        "c.SECONDS_BETWEEN_LINES = 0.0\nfrom tailcloud.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, "data", "verify", str(damaged)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while "70 of 85 files checked" not in process.stderr.readline():
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"were checked: {damaged}/cat/7.png (it is" in said
    assert len(rows_of(damaged.parent / "photos-broken.csv")) == 2
