"""``tailcloud train`` under torchrun: rank 0 prints, SIGTERM saves a checkpoint, a run can be resumed."""

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

from helpers import forked_torchrun
from helpers.foreign_modules import set_traps, sprung
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.data.loaders import cache
from tailcloud.errors import SilentExit, TailcloudError, UsageError
from tailcloud.launch.execute import check_same_data
from tailcloud.launch.run_plan import TrainRequest
from tailcloud.launch.torchrun import plan_shared_run, silence_notes, torchrun_resume_command
from tailcloud.runs.folder import RunFolder

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tailcloud"]
FORKED = [forked_torchrun.__file__, "2"]  # the same, but everything is imported once
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
    """Start two processes, in a folder of foreign modules that they must not import; they are killed at the end."""
    started = []
    set_traps(tmp_path)

    def start(words, launcher=TORCHRUN):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONSAFEPATH", None)
        command = [sys.executable, "-P", *launcher, *words.split()]  # as the script torchrun, which has no "-P"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    assert sprung(tmp_path) == []


def test_several_runs_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"torchrun lets several processes share one run.*has 2"):
        plan_shared_run(TrainRequest(seeds=[0, 1]))


def test_a_run_that_torchrun_restarts_is_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    run = plan_shared_run(TrainRequest())  # it failed before the run folder was created
    run.folder.create(run.recipe, run.command)
    assert plan_shared_run(TrainRequest()).folder.path == run.folder.path


def test_the_resume_command_has_the_number_of_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = plan_shared_run(TrainRequest())
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    expected = "-m tailcloud train --resume --out runs/digits-lt-gcl-seed0"
    assert torchrun_resume_command(run) == f"torchrun --nproc-per-node 8 {expected}"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    assert torchrun_resume_command(run) == f"torchrun … {expected}"


def test_bench_is_refused_under_torchrun(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "here"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r'"tailcloud bench" cannot run under torchrun .*without torchrun'):
        CliRunner().invoke(app, ["bench", "table1", "--dry-run"], catch_exceptions=False)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SilentExit):
        CliRunner().invoke(app, ["bench", "table1", "--dry-run"], catch_exceptions=False)


def test_other_ranks_report_nothing_but_the_cache_that_they_fill(monkeypatch):
    for name in ("tailcloud", cache.__name__):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    silence_notes()
    assert logging.getLogger(cache.__name__).getEffectiveLevel() == logging.INFO
    assert logging.getLogger("tailcloud.data.loaders.substitutes").getEffectiveLevel() == logging.CRITICAL


def test_data_that_differ_from_those_of_rank_0_are_refused():
    dataset = open_dataset("digits-lt")
    check_same_data(dataset, dataset.fingerprint)
    with pytest.raises(
        TailcloudError, match=r"digits-lt differs from the data of rank 0.*give all processes the same data"
    ):
        check_same_data(dataset, "0")


@pytest.mark.slow
def test_missing_data_are_one_error_and_leave_no_run_folder(torchrun, tmp_path):
    said, _ = torchrun("train own/gcl --data ./nowhere --out run --device cpu", FORKED).communicate(timeout=100)
    assert said.count("nowhere does not exist") == said.count("error:") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ctrl_c_is_one_error_of_rank_0(torchrun, tmp_path):
    process = torchrun("train --out run --device cpu --set model.width=0.25 --set stage1.epochs=4000")
    wait_for_an_epoch(process, tmp_path / "run")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=100)
    assert said.count("error: rank 0: stopped") == 1
    assert 'with "torchrun --nproc-per-node 2' in said
    assert said.count("error:") == 1


def wait_for_an_epoch(process, folder):
    for _ in range(1200):
        if RunFolder(folder).log():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_ends_all_processes_and_rank_0_says_how_to_resume(torchrun, tmp_path):
    process = torchrun("train --out run --device cpu --set model.width=0.25 --set stage1.epochs=4000")
    wait_for_an_epoch(process, tmp_path / "run")
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=100)
    sentence = (
        'rank 0: stopped by SIGTERM; continue with "torchrun --nproc-per-node 2 -m tailcloud train --resume --out run"'
    )
    assert said.count(sentence) == 1
    assert said.count("error:") == 1
    assert list((tmp_path / "run" / "checkpoint").iterdir())
