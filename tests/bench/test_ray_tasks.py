"""A bench on a Ray of two workers: it fills the table, also when a worker is killed in the middle of a run."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailcloud.bench
from helpers.foreign_modules import set_traps, sprung
from helpers.small_table import table
from tailcloud.bench import ray_cluster
from tailcloud.bench.ray_tasks import RETRIES, lost_run
from tailcloud.cli import app
from tailcloud.cli.bench_display import BenchProgress
from tailcloud.errors import TailcloudError
from tailcloud.launch.execute import Stopped
from tailcloud.runs.folder import RunFolder

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'tailcloud[ray]'")
EPOCHS = 12


@pytest.fixture(scope="module", autouse=True)
def two_workers(tmp_path_factory):
    """Ray as the command starts it, in a folder of foreign modules that no worker may import."""
    place = tmp_path_factory.mktemp("traps")
    set_traps(place)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as started:
        patch.setenv("RAY_worker_niceness", "0")  # Ray's workers stand back behind everybody else, here other tests
        patch.chdir(place)
        patch.setattr(ray_cluster, "cores", lambda: 2)
        patch.setattr(ray, "init", without_another_ray(ray.init))
        started.enter_context(ray_cluster.connected(ray_cluster.Cluster()))
        patch.undo()
        yield
    assert sprung(place) == []


def without_another_ray(init):
    """``ray.init`` on a machine where no Ray runs."""

    def start(address, **options):
        if address == "auto":
            raise ConnectionError
        return init(address, **options)

    return start


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """``tailcloud bench`` on Ray, with the small table, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(filter(None, sys.path)))  # "python -m pytest" has the working folder in it
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name))
    set_traps(tmp_path)

    def call(words):
        small = "--set model.width=0.25 --set engine.checkpoint_seconds=0 --only digits-lt --seed 0"
        command = ["bench", "table1", "--on", "ray", *small.split(), *words.split()]
        return CliRunner().invoke(app, command, catch_exceptions=False)

    yield call
    assert sprung(tmp_path) == []


def folder_of(name):
    found = next(Path("runs/bench/table1").glob(f"*/{name}"), None)
    return RunFolder(found) if found else None


def holder(folder):
    """The process that has the lock of a run folder open."""
    for entry in Path("/proc").iterdir():
        try:
            if any(file.readlink() == (folder.path / ".lock").absolute() for file in (entry / "fd").iterdir()):
                return int(entry.name)
        except OSError:
            continue
    return None


class Killer(threading.Thread):
    """Kills the worker of a run after its third epoch, and remembers what was logged by then."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name_of_run, self.logged = name, []

    def run(self):
        while not self.logged:
            time.sleep(0.005)
            folder = folder_of(self.name_of_run)
            if folder and len(folder.log()) >= 3 and (process := holder(folder)):
                os.kill(process, signal.SIGKILL)
                self.logged = folder.log()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the worker of a run is found in /proc")
def test_a_killed_worker_costs_nothing_but_time(bench, tmp_path):
    killer = Killer("digits-lt-gcl-seed0")
    killer.start()
    result = bench(f"--epochs {EPOCHS} --json table.json")
    assert result.exit_code == 0, result.output
    cells = json.loads(Path("table.json").read_text())["cells"]
    assert [cell["seeds"] for cell in cells] == [[0], [0], [0]]
    folder = folder_of("digits-lt-gcl-seed0")
    assert 3 <= len(killer.logged) < EPOCHS
    assert folder.log()[: len(killer.logged) - 1] == killer.logged[:-1]  # it went on; it did not begin anew
    command = folder.result().command
    undisturbed = CliRunner().invoke(app, [*command.split()[1:], "--out", "alone", "--device", "cpu"])
    assert undisturbed.exit_code == 0, undisturbed.output
    assert folder.weights_file.read_bytes() == Path("alone/model.safetensors").read_bytes()
    assert folder.result().stages[1].top1 == RunFolder(Path("alone")).result().stages[1].top1
    assert list(folder.path.parent.glob(".tmp-*")) == []


@pytest.mark.slow
def test_students_start_when_their_teachers_are_finished(bench, monkeypatch):
    rows = [
        {"label": "Taught", "method": "ce", "variant": "taught", "over": "", "teacher": "ce"},
        {"label": "CE", "method": "ce"},
    ]
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name, rows=rows, columns=["digits-lt"]))
    result = bench("--epochs 3 --seed 1")
    assert result.exit_code == 0, result.output
    for seed in (0, 1):
        (teacher,) = folder_of(f"digits-lt-ce-taught-seed{seed}").result().model.teachers
        assert RunFolder(Path(teacher.run)).finished
        assert Path(teacher.run).name == f"digits-lt-ce-seed{seed}"


@pytest.mark.slow
def test_ctrl_c_ends_the_tasks_and_leaves_what_is_finished(bench, monkeypatch):
    finish = BenchProgress.finish

    def then_interrupt(board, run, result, *, new=True):
        finish(board, run, result, new=new)
        raise KeyboardInterrupt

    monkeypatch.setattr(BenchProgress, "finish", then_interrupt)
    with pytest.raises(Stopped, match="continue with"):
        bench("--epochs 1 --only ce --set stage1.epochs=1 --only gcl --set stage2.epochs=100000")
    place = next(Path("runs/bench/table1").iterdir())
    finished = [folder for folder in map(RunFolder, place.iterdir()) if folder.finished]
    assert [folder.path.name for folder in finished] == ["digits-lt-ce-seed0"]
    patience = time.monotonic() + 20
    while any(RunFolder(path).is_locked for path in place.iterdir()) and time.monotonic() < patience:
        time.sleep(0.1)
    assert not any(RunFolder(path).is_locked for path in place.iterdir())


@pytest.mark.slow
def test_a_machine_without_the_data_fails_the_cell_with_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "bench table1 --on ray --only ce --only crt --only cifar10-lt:100 --seed 0 --root nowhere --json t.json"
    with pytest.raises(TailcloudError, match=r"2.cells or runs could not be measured"):
        CliRunner().invoke(app, words.split(), catch_exceptions=False)
    first, second = json.loads(Path("t.json").read_text())["cells"]
    assert f"needs CIFAR-10 in {tmp_path}/nowhere/" in first["failures"][0]
    assert f"[on the machine {os.uname().nodename}]" in first["failures"][0]
    assert "it needs the first stage of cifar10-lt:100 ce seed 0, which is not complete" in second["failures"][0]


def test_a_run_that_no_worker_survives_is_a_sentence():
    assert f"was lost {RETRIES + 1} times (WorkerCrashedError)" in str(lost_run(ray.exceptions.WorkerCrashedError()))
    foreign = ray.exceptions.RaySystemError("…\nModuleNotFoundError: No module named 'tailcloud'")
    assert "install the same version on every machine" in str(lost_run(foreign))
