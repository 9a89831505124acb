"""When the runs of a bench start: a second stage as soon as its first stage is saved; a failure stops its own only."""

import os
import threading
from contextlib import nullcontext

import pytest
import torch

from helpers.runs import Watcher
from helpers.small_table import table
from tailcloud.bench import BenchProtocol, bench_runner, plan_bench
from tailcloud.bench.bench_runner import train_step, wait_for
from tailcloud.bench.plan import steps_of, teachers_of
from tailcloud.errors import TailcloudError
from tailcloud.launch.fleet import train_on_streams
from tailcloud.runs.folder import FolderInUse, RunFolder
from tailcloud.runs.fork import first_stage_file

ROWS = [
    {"label": "GCL", "method": "gcl"},
    {"label": "Other", "method": "gcl", "variant": "ib", "set": ["stage2.sampler=ib"]},
    {"label": "Another", "method": "gcl", "variant": "cben", "set": ["stage2.sampler=cben"]},
]


class Display:
    def observer(self, run):
        return Watcher()


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    """What becomes of two first stages with two borrowers each, trained as on a GPU by an ``execute`` of the test."""
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(bench_runner, "fail_without_data", lambda *_: set())
    monkeypatch.setattr(bench_runner, "fork_run", lambda *_: None)

    def on_streams(jobs, observers, device, after):
        return train_on_streams(jobs, observers, len(jobs), after)

    monkeypatch.setattr(bench_runner, "run_jobs", on_streams)
    runs = plan_bench(table(rows=ROWS, columns=["digits-lt"]), BenchProtocol(seeds=(0, 1)), tmp_path).runs

    def train(execute):
        monkeypatch.setattr(bench_runner, "execute", execute)
        found = bench_runner.on_this_machine("cpu")(steps_of(runs), Display())
        return {step.run.folder.path.name: outcome for step, outcome in found}

    return train


def save_first_stage(run):
    file = first_stage_file(run.folder, run.recipe)
    file.parent.mkdir(parents=True)
    file.touch()


def test_a_second_stage_starts_as_soon_as_its_first_stage_is_saved(outcomes):
    """Seed 0 has saved its first stage, and seed 1 has not: both run on until the borrowers of seed 0 have started."""
    borrowed = threading.Semaphore(0)

    def execute(run, device, observer):
        name = run.folder.path.name
        if name == "digits-lt-gcl-seed0":
            save_first_stage(run)
        if name.startswith("digits-lt-gcl-seed"):
            assert borrowed.acquire(timeout=20)
        if name == "digits-lt-gcl-seed1":
            save_first_stage(run)
        borrowed.release()
        return name

    assert all(name == outcome for name, outcome in outcomes(execute).items())


def test_a_first_stage_that_fails_takes_its_second_stages_with_it_and_nobody_else(outcomes):
    def execute(run, device, observer):
        if run.folder.path.name == "digits-lt-gcl-seed0":
            raise TailcloudError("the loss became NaN")
        if run.folder.path.name == "digits-lt-gcl-seed1":
            save_first_stage(run)
        return run.folder.path.name

    found = outcomes(execute)
    needed = "it needs the first stage of digits-lt gcl seed 0, which is not complete"
    assert str(found["digits-lt-gcl-seed0"]) == "the loss became NaN"
    assert [str(found[f"digits-lt-gcl-{key}-seed0"]) for key in ("ib", "cben")] == [needed] * 2
    assert all(found[name] == name for name in found if name.endswith("seed1"))


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say who trains in a folder")
def test_a_teacher_that_another_process_trains_is_waited_for(tmp_path, monkeypatch):
    rows = [{"label": "Taught", "method": "ce", "variant": "taught", "teacher": "ce"}, {"label": "CE", "method": "ce"}]
    runs = plan_bench(table(rows=rows, columns=["digits-lt"]), BenchProtocol(seeds=(0,)), tmp_path).runs
    (student,) = [step for step in steps_of(runs) if step.run.recipe.distill]
    (teacher,) = map(RunFolder, teachers_of(student.run))
    notes, waits = [], []
    monkeypatch.setattr(bench_runner.time, "sleep", waits.append)
    with teacher.locked():
        with pytest.raises(FolderInUse, match="digits-lt-ce-seed0 is trained by another tailcloud process"):
            train_step(student, "cpu", Watcher())
        display = Display()
        display.note = notes.append
        monkeypatch.setattr(
            RunFolder, "is_locked", property(lambda folder: folder.path == teacher.path and len(waits) < 3)
        )
        wait_for([student], display)
    assert notes == ["another tailcloud process trains digits-lt-ce-seed0; waiting for it"]
    assert len(waits) == 3
