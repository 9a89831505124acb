"""A run continues while its checkpoint is written: nothing is lost, and what was saved is what was there."""

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread, get_ident

import pytest
import torch

from helpers.runs import Interrupted, StopAfter, run, same_weights, small_recipe
from tailcloud.data import open_dataset
from tailcloud.runs.checkpoint import TrainingProgress, load_checkpoint, load_latest_checkpoint, save_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.training import checkpoint_policy
from tailcloud.training.checkpoint_policy import Checkpointer
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts

OFTEN = {"engine": {"checkpoint_seconds": 1e-9, "executor": "eager"}, "stage1": {"batch": 32}}


@pytest.fixture
def checkpointer(tmp_path):
    """That of a run before its first step, which is saved every 10 seconds."""
    recipe = small_recipe({"engine": {"checkpoint_seconds": 10.0}})
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe)
    session = Session(recipe, open_dataset(recipe.data.spec, recipe.root), torch.device("cpu"))
    return Checkpointer(session, folder, TrainingProgress(), make_parts(session, "stage1"))


def around(monkeypatch, before):
    """Something happens in the writing thread before each file is written."""

    def save(*words):
        before()
        save_checkpoint(*words)

    monkeypatch.setattr(checkpoint_policy, "save_checkpoint", save)


def test_a_checkpoint_is_of_the_moment_when_it_was_saved(checkpointer, monkeypatch):
    release, model, progress = Event(), checkpointer.session.model, checkpointer.progress
    around(monkeypatch, release.wait)
    progress.changes.append("before")
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    checkpointer.save(wait=False)
    progress.changes.append("after")
    progress.begin_epoch(3)
    for value in [*model.state_dict().values(), *checkpointer.parts.optimizer.state.values()]:
        value.fill_(7)
    release.set()
    checkpointer.writer.wait()
    found, _ = load_latest_checkpoint(checkpointer.folder.checkpoints)
    assert (found.state["epoch"], found.state["changes"]) == (0, ["before"])
    for name, value in found.group("model").items():
        assert torch.equal(value, expected[name]), name
    assert not any(value.any() for value in found.group("momentum").values())


def test_saving_takes_at_most_two_percent_of_the_time(checkpointer, monkeypatch):
    now, saves = [100.0], []
    monkeypatch.setattr(checkpoint_policy.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Checkpointer, "save", lambda self, **_: saves.append(now[0]))
    checkpointer.saved_at = checkpointer.epoch_started_at = 100.0
    for copy, write, interval in [(0.0, 0.0, 10.0), (0.01, 0.09, 10.0), (0.1, 0.5, 30.0)]:
        checkpointer.copy_seconds, checkpointer.writer.seconds = copy, write
        for since in (interval - 0.1, interval + 0.1):
            now[0] = 100.0 + since
            checkpointer.epoch_done(last=False)
            assert checkpointer.due == (since > interval)
        assert saves == [100.1 + interval]
        saves.clear()


def test_a_run_that_is_left_has_written_what_it_saved(tmp_path, monkeypatch, every_step):
    around(monkeypatch, lambda: time.sleep(0.1))
    monkeypatch.setattr(StopAfter, "epoch_done", leave)
    with pytest.raises(Interrupted):
        run(tmp_path / "run", small_recipe(OFTEN), StopAfter(1))
    written = sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir())
    assert written[-1] == "stage1-0000001.safetensors"
    time.sleep(0.3)
    assert written == sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir())


def leave(*_):
    raise Interrupted


def test_with_zero_seconds_each_epoch_is_on_the_disk_before_the_next(tmp_path, monkeypatch):
    around(monkeypatch, lambda: time.sleep(0.02))

    class Look(StopAfter):
        def epoch_done(self, line):
            super().epoch_done(line)
            assert (tmp_path / "run" / "checkpoint" / f"{line['stage']}-{line['epoch']:07d}.safetensors").exists()

    run(tmp_path / "run", small_recipe(), Look(-1))


def test_a_stage_ends_when_its_last_epoch_is_on_the_disk(tmp_path, monkeypatch):
    around(monkeypatch, lambda: time.sleep(0.2))
    kept = []

    class Look(StopAfter):
        def stage_started(self, name, stage, done):
            kept.append([path.name for path in (tmp_path / "run").glob("checkpoint/*")])

    run(tmp_path / "run", small_recipe({"engine": {"checkpoint_seconds": 3600.0}}), Look(-1))
    assert kept == [[], ["stage1-0000003.safetensors"]]


@pytest.mark.parametrize(("seconds", "epochs"), [(1e-9, 0), (3600.0, 2)])
def test_a_file_that_cannot_be_written_ends_the_run_with_its_error(tmp_path, monkeypatch, every_step, seconds, epochs):
    """At the next save, or at the end of the stage."""

    def fill_the_disk():
        raise OSError(28, "No space left on device", "the checkpoint")

    around(monkeypatch, fill_the_disk)
    watcher = StopAfter(-1)
    with pytest.raises(OSError, match="No space left on device"):
        run(tmp_path / "run", small_recipe(OFTEN, {"engine": {"checkpoint_seconds": seconds}}), watcher)
    assert len(watcher.lines) == epochs


def test_runs_of_one_process_share_one_writer(tmp_path, monkeypatch):
    threads = []
    around(monkeypatch, lambda: threads.append(get_ident()))
    recipe = small_recipe({"stage1": {"epochs": 2}}, name="digits-lt/ce")
    runs = [Thread(target=run, args=(tmp_path / name, recipe)) for name in ("a", "b")]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(threads) == 4
    assert len({*threads} - {each.ident for each in runs}) == 1
    assert same_weights(tmp_path / "a", tmp_path / "b")


PROGRAM = """
import os, sys, time
from pathlib import Path
from helpers.runs import run, small_recipe
from tailcloud import files
from tailcloud.training import checkpoint_policy
from test_background_saves import OFTEN

def save(*words):
    global saves
    saves += 1
    if saves == 3:
        files.os.fsync = stick
    whole(*words)

def stick(_):
    print("writing", flush=True)
    time.sleep(60)

saves, whole = 0, checkpoint_policy.save_checkpoint
checkpoint_policy.MIN_TRAINING_PER_SAVE, checkpoint_policy.save_checkpoint = 0, save
run(Path(sys.argv[1]), small_recipe(OFTEN))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_a_run_that_is_killed_while_it_writes_ends_with_the_same_bits(tmp_path):
    recipe, folder = small_recipe(OFTEN), tmp_path / "killed"
    run(tmp_path / "whole", recipe)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    words = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        while len(RunFolder(folder).log()) < 2 and process.poll() is None:
            time.sleep(0.01)  # it trains on meanwhile
        process.kill()
    names = sorted(path.name for path in (folder / "checkpoint").iterdir())
    assert names[0].startswith(".tmp-")
    assert len(names) == 3
    assert load_checkpoint(folder / "checkpoint" / names[-1]).state["epoch"] == 0
    with RunFolder(folder).locked():
        run(folder, recipe)
    assert same_weights(tmp_path / "whole", folder)
    assert len(RunFolder(folder).log()) == 5
