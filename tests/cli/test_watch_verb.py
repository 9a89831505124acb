"""Watching runs from outside: what is read, what is printed, and when it ends."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from helpers.runs import run, small_recipe
from helpers.synthetic_runs import make_result
from tailcloud.cli import app, live_table, run_status
from tailcloud.cli.live_table import RunWatcher, epoch_line, sparkline, table_row
from tailcloud.cli.run_status import LogTail, RunStatus, check_runs, find_runs, read_stages
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import write_atomically
from tailcloud.reporting.run_record import Epoch, read_run
from tailcloud.runs.folder import RunFolder

RECIPE = 'format = 1\nmethod = "a plugin\'s own"\n\n[stage1]\nepochs = 4\n\n[stage2]\nepochs = 2\n'


def line(epoch, stage="stage1", **more):
    figures = {"loss": 2.0, "top1": 10.0 * epoch, "many": 90.0, "medium": 50.0, "few": 5.0, "seconds": 3.0}
    return json.dumps({"format": 1, "stage": stage, "epoch": epoch, **figures, **more}) + "\n"


@pytest.fixture
def started(tmp_path):
    """A run that was just started."""
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / ".lock").touch()
    return folder


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(live_table, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(live_table, "GRACE_SECONDS", 0.05)


def watch(*words):
    return CliRunner().invoke(app, ["watch", *map(str, words)], catch_exceptions=False)


def test_a_log_is_read_as_it_grows_and_a_half_line_waits(tmp_path):
    log = LogTail(tmp_path / "log.jsonl")
    log.update()
    assert log.lines == []
    whole = line(1) + line(2)
    log.path.write_text(whole + line(3)[:-20])
    log.update()
    log.update()
    assert [one.epoch for one in log.lines] == [1, 2]
    with log.path.open("a") as file:
        file.write(line(3)[-20:])
    log.update()
    assert [one.epoch for one in log.lines] == [1, 2, 3]


def test_a_log_that_a_resumed_run_cut_is_read_again(tmp_path):
    folder = RunFolder(tmp_path)
    log = LogTail(folder.log_file)
    log.path.write_text(line(1) + line(2) + line(3))
    log.update()
    folder.truncate_log(lambda entry: entry["epoch"] == 1)
    folder.append_log({"stage": "stage1", "epoch": 2, "loss": 7.0})
    log.update()
    assert [(one.epoch, one.loss) for one in log.lines] == [(1, 2.0), (2, 7.0)]


@pytest.mark.parametrize("content", ["[]\n", "{\n", "\0\n", '{"format": 1}\n', "[" * 100_000 + "\n"])
def test_a_damaged_log_is_a_sentence(tmp_path, content):
    (tmp_path / "log.jsonl").write_text(line(1) + content)
    with pytest.raises(TailcloudError, match=r"line 2 of .*log\.jsonl is damaged"):
        LogTail(tmp_path / "log.jsonl").update()


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(run_status, "LONGEST_LINE", 1000)
    (tmp_path / "log.jsonl").write_bytes(b" " * 5000)
    with pytest.raises(TailcloudError, match="damaged"):
        LogTail(tmp_path / "log.jsonl").update()


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes there")
def test_a_pipe_in_place_of_a_log_keeps_nobody_waiting(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "log.jsonl")
    assert "is finished" in watch(tmp_path / "run").output
    with pytest.raises(TailcloudError, match=r"log\.jsonl is missing"):
        read_run(tmp_path / "run")


def test_a_long_log_is_read_a_piece_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(run_status, "LONGEST_LINE", 400)
    (tmp_path / "log.jsonl").write_text("".join(line(epoch) for epoch in range(1, 11)))
    log, counts = LogTail(tmp_path / "log.jsonl"), []
    for _ in range(10):
        log.update()
        counts.append(len(log.lines))
    assert counts[0] < 10 == counts[-1]


def test_the_epochs_of_a_recipe_are_read_without_its_parts(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    assert read_stages(tmp_path / "recipe.toml") == {"stage1": 4, "stage2": 2}
    for text in ("", "format = 1\n", "format = 1\nstage1 = 3\n", 'format = 1\n[stage1]\nepochs = "many"\n', "]"):
        (tmp_path / "recipe.toml").write_text(text)
        with pytest.raises(TailcloudError, match=r"recipe\.toml"):
            read_stages(tmp_path / "recipe.toml")


def test_time_left_is_that_of_the_epochs_to_come(started):
    run = RunStatus(started)
    run.update()
    assert run.seconds_left is None
    (started / "log.jsonl").write_text(line(1) + line(2, seconds=5.0))
    run.update()
    assert run.seconds_left == pytest.approx(4.0 * (2 + 2))
    write_atomically(started / "log.jsonl", line(4) + line(1, "stage2", seconds=1.0))
    run.update()
    assert run.seconds_left == pytest.approx(1.0)


def test_runs_are_found_below_folders_each_once(started):
    other = started.parent / "more" / "seed0"
    shutil.copytree(started, other)
    assert find_runs([started.parent, started]) == [other, started]
    assert find_runs([started]) == [started]


def test_what_holds_no_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere does not exist; start the run first"):
        check_runs([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="holds no run"):
        check_runs([tmp_path])


def test_a_finished_run_is_printed_at_once(finished_run):
    done = watch(finished_run)
    assert done.exit_code == 0
    last = RunFolder(finished_run).log()[-1]
    assert f"stage2 epoch 2/2  loss {last['loss']:.3f}  top-1 {last['top1']:.1f}" in done.output
    assert f"{finished_run} is finished: top-1 {last['top1']:.1f}" in done.output


def test_a_last_stage_without_epochs_has_its_accuracy_in_the_result(tmp_path):
    adjusted = {"stage3": {"head_transform": "tuned-logit-adjust"}, "selection": {"split": 0.1}}
    result = run(tmp_path / "run", small_recipe(adjusted, {"stage1": {"epochs": 1}, "stage2": {"epochs": 1}}))
    done = watch(tmp_path / "run")
    assert f"is finished: top-1 {result.stages[-1].top1:.1f}" in done.output
    (tmp_path / "run" / "result.json").write_text("{}")
    assert "is finished: top-1 n/a" in watch(tmp_path / "run").output


def test_a_run_under_way_is_followed_to_its_end(started):
    def train():
        with RunFolder(started).locked():
            for epoch in range(1, 5):
                time.sleep(0.05)
                with (started / "log.jsonl").open("a") as log:
                    log.write(line(epoch))
            (started / "result.json").write_text("{}")

    trainer = threading.Thread(target=train)
    trainer.start()
    done = watch(started.parent)
    trainer.join()
    assert done.exit_code == 0
    epochs = re.findall(r"stage1 epoch (\d)/4", done.output)
    assert epochs == sorted(set(epochs))
    assert epochs[-1] == "4"
    assert "is finished: top-1 40.0" in done.output


def test_a_run_that_begins_while_another_is_watched_is_watched_too(started):
    second = started.parent / "two"

    def train():
        time.sleep(0.1)
        shutil.copytree(started, second)
        (second / "result.json").write_text("{}")
        (started / "result.json").write_text("{}")

    trainer = threading.Thread(target=train)
    trainer.start()
    done = watch(started.parent)
    trainer.join()
    assert f"{second} is finished" in done.output


def test_a_run_that_was_stopped_is_named_with_the_command_that_continues_it(started, monkeypatch):
    (started / "log.jsonl").write_text(line(1, seconds=0.1))
    for file in started.iterdir():
        os.utime(file, (time.time() - 300, time.time() - 300))
    with RunFolder(started).locked():
        os.utime(started / ".lock", (time.time() - 300, time.time() - 300))
        run = RunStatus(started)
        run.update()
        assert not run.ended
    done = watch(started)
    assert done.exit_code == 1
    printed = done.output.replace("\n", "")
    assert "was stopped 5\u00a0min 0\u00a0s ago and is not finished" in printed
    assert f"continue it with tailcloud train --resume --out {started}" in printed


def test_others_are_watched_beside_a_damaged_run(started, finished_run):
    (started / "log.jsonl").write_text("[]\n")
    done = watch(started, finished_run)
    assert done.exit_code == 1
    assert "is finished" in done.output
    assert "log.jsonl is damaged" in done.output


def test_a_log_with_a_stage_of_its_own_is_damaged(started):
    (started / "log.jsonl").write_text(line(1, "\x1b[2Jstage9") + line(1))
    done = watch(started)
    assert done.exit_code == 1
    assert "\x1b" not in done.output


def test_ctrl_c_stops_watching_and_the_runs_continue(started, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(live_table.time, "sleep", interrupt)
    done = watch(started)
    assert done.exit_code == 0
    assert "Stopped watching; runs continue." in done.output


def test_the_table_shows_every_run(started, finished_run):
    (started / "log.jsonl").write_text(line(1) + line(2, val_top1=33.3))
    watcher = RunWatcher([started, finished_run])
    watcher.update()
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(watcher.table())
    printed = console.export_text()
    assert re.search(r"one .* stage1 2/4 +2\.000 +33\.3 val +90\.0 +50\.0 +5\.0 +▁▂ +12\.0\u00a0s", printed)
    assert re.search(r"stage2 2/2 .* finished", printed)
    watcher.runs[0].log.lines.clear()
    assert [str(cell) for cell in table_row(watcher.runs[0])][-1] == "starting"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_the_name_of_a_folder_steers_no_terminal(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "runs" / "\x1b]0;title\x07 a")
    assert "\x1b" not in watch(tmp_path / "runs").output
    table, watcher = Console(width=200), RunWatcher([tmp_path / "runs"])
    watcher.update()
    with table.capture() as shown:
        table.print(watcher.table())
    assert "\x1b" not in shown.get()


def test_a_terminal_has_a_table_that_moves(finished_run, monkeypatch, capsys):
    monkeypatch.setattr(live_table, "on_terminal", lambda: True)
    monkeypatch.setattr(live_table, "out", Console(force_terminal=True, width=150, file=sys.stdout))
    RunWatcher([finished_run]).follow()
    printed = capsys.readouterr().out
    assert "stage2 2/2" in printed
    assert "is finished" in printed


def test_a_sparkline_rises_with_the_accuracy():
    epochs = [Epoch(stage="stage1", epoch=place, top1=100.0 * place / 40) for place in range(1, 41)]
    drawn = sparkline(epochs)
    assert len(drawn) == 16
    assert list(drawn) == sorted(drawn)
    assert (drawn[0], drawn[-1]) == ("▁", "█")
    assert sparkline([]) == sparkline([Epoch(stage="stage1", epoch=1)]) == ""


def test_epochs_that_were_not_evaluated_keep_the_last_accuracy(started):
    (started / "log.jsonl").write_text(line(1) + line(2, top1=None, many=None, medium=None, few=None))
    run = RunStatus(started)
    run.update()
    assert "epoch 2/4  loss 2.000  top-1 10.0  many 90.0" in epoch_line(run, run.last)


def test_watching_starts_quickly():
    code = "import sys, tailcloud.cli.live_table; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_accuracy_of_a_run_that_keeps_an_earlier_stage_is_that_of_its_model(started):
    content = make_result(method="gcl")
    content["kept_stage"] = {"name": "stage1"}
    content["top1"]["last"] = 61.5
    (started / "log.jsonl").write_text(line(4))
    (started / "result.json").write_text(json.dumps(content))
    assert "is finished: top-1 61.5" in watch(started).output
