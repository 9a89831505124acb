"""``tailcloud train`` under torchrun: one process speaks, SIGTERM saves, a killed one takes nothing with it."""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser
from typer.testing import CliRunner

from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.data.loaders import cache_fill
from tailcloud.errors import Elsewhere, TailcloudError, UsageError
from tailcloud.launch import torchrun as torchrun_driver
from tailcloud.launch.run_plan import Request
from tailcloud.launch.torchrun import check_same_data, hush, started_again, the_run
from tailcloud.runs.folder import RunFolder
from tailcloud.training.distributed.world import World

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
COMMANDS = re.findall(r"^\$ torchrun (.*) -m tailcloud (.*)$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("ours", "theirs"), [command[::-1] for command in COMMANDS])
def test_every_command_of_the_page_is_valid(ours, theirs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parsed = get_args_parser().parse_args([*theirs.split(), "-m", "tailcloud"])
    assert parsed.nproc_per_node == "8"
    words = [*ours.split(), "--help" if "--resume" in ours else "--dry-run"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0


@pytest.fixture
def torchrun(tmp_path):
    """Start two processes; they are killed at the end."""
    started = []

    def start(words):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tailcloud"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen([*command, *words.split()], cwd=tmp_path, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_several_runs_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"torchrun lets several processes share one run.*asks for 2"):
        the_run(Request(seeds=[0, 1]))


def test_what_torchrun_starts_again_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    run = the_run(Request())  # it failed before it began
    run.folder.create(run.recipe, run.command)
    assert the_run(Request()).folder.path == run.folder.path


def test_the_words_to_go_on_name_the_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = the_run(Request())
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    expected = "-m tailcloud train --resume --out runs/digits-lt-gcl-seed0"
    assert started_again(run) == f"torchrun --nproc-per-node 8 {expected}"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    assert started_again(run) == f"torchrun … {expected}"


def test_bench_is_no_work_for_torchrun(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "here"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r'"tailcloud bench" cannot run under torchrun .*without torchrun'):
        CliRunner().invoke(app, ["bench", "table1", "--dry-run"], catch_exceptions=False)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(Elsewhere):
        CliRunner().invoke(app, ["bench", "table1", "--dry-run"], catch_exceptions=False)


def test_only_the_cache_that_a_process_fills_is_told_by_others_than_the_chief(monkeypatch):
    for name in ("tailcloud", cache_fill.__name__):
        monkeypatch.setattr(logging.getLogger(name), "tuned-logit-adjust", logging.NOTSET)
    hush()
    assert logging.getLogger(cache_fill.__name__).getEffectiveLevel() == logging.INFO
    assert logging.getLogger("tailcloud.data.loaders.substitutes").getEffectiveLevel() == logging.CRITICAL


def test_other_data_than_those_of_the_chief_are_refused():
    dataset = open_dataset("digits-lt")
    check_same_data(dataset, dataset.fingerprint)
    with pytest.raises(TailcloudError, match=r"digits-lt is not what rank 0 has.*give all processes the same data"):
        check_same_data(dataset, "0")


def test_a_trunk_that_stays_random_is_told_here_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torchrun_driver.console, "speak_as", lambda _: None)
    monkeypatch.setattr(torchrun_driver.loop, "train", lambda *_: {})
    monkeypatch.setattr(torchrun_driver, "write_report", lambda _: None)
    torchrun_driver.train_together(the_run(Request(["digits-lt/ce"], settings=["stage1.train=head"])), "cpu", World())
    assert "keep their random initial weights" in capsys.readouterr().err


@pytest.mark.slow
def test_data_that_are_not_there_are_said_once_and_leave_no_run(torchrun, tmp_path):
    said, _ = torchrun("train own/gcl --data ./nowhere --out run --device cpu").communicate(timeout=100)
    assert said.count("there is no nowhere") == said.count("error:") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ctrl_c_is_a_sentence_of_the_chief(torchrun, tmp_path):
    process = torchrun("train --out run --device cpu --set model.width=0.25 --set stage1.epochs=4000")
    wait_for_an_epoch(process, tmp_path / "run")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=100)
    assert said.count('error: rank 0: stopped; go on with "torchrun --nproc-per-node 2') == 1
    assert said.count("error:") == 1


def wait_for_an_epoch(process, folder):
    for _ in range(1200):
        if RunFolder(folder).log():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_ends_all_processes_and_one_says_how_to_go_on(torchrun, tmp_path):
    process = torchrun("train --out run --device cpu --set model.width=0.25 --set stage1.epochs=4000")
    wait_for_an_epoch(process, tmp_path / "run")
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=100)
    sentence = (
        'rank 0: stopped by SIGTERM; go on with "torchrun --nproc-per-node 2 -m tailcloud train --resume --out run"'
    )
    assert said.count(sentence) == 1
    assert said.count("error:") == 1
    assert list((tmp_path / "run" / "checkpoint").iterdir())
