"""Runs on machines that share no file system: their files travel."""

import shutil
from functools import partial

import pytest

from helpers.small_table import table
from tailcloud.bench import BenchProtocol, plan_bench
from tailcloud.bench.bench_runner import train_step
from tailcloud.bench.folder_transfer import folder_copy
from tailcloud.bench.plan import in_order, steps_of
from tailcloud.bench.ray_worker import WorkerSetup, work
from tailcloud.errors import TailcloudError
from tailcloud.runs.folder import RunFolder


class Nobody:
    """A mailbox that nobody reads."""

    @property
    def add(self):
        return self

    def remote(self, message):
        pass


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """A run that trains its first stage, and one that takes it."""
    place = tmp_path_factory.mktemp("runs")
    protocol = BenchProtocol([0], 1, ["model.width=0.25", "engine.checkpoint_seconds=0"])
    rows = [row for row in table().rows if row.method == "gcl"]
    chosen = table().subset(rows, ["digits-lt"])
    owner, borrower = in_order(steps_of(plan_bench(chosen, protocol, place).runs))
    assert borrower.parent is owner.run
    return place, owner, borrower


def train(place, step, *needed, token="not here"):
    """What a machine does that shares no folder with the one that asks."""
    return work(
        0, partial(train_step, step, "cpu"), step.run.folder, WorkerSetup(place / token, place, 1), Nobody(), *needed
    )


@pytest.fixture(scope="module")
def owned(steps):
    """The first run, trained by a machine whose disk is then gone."""
    place, owner, _ = steps
    result, copy = train(place, owner)
    shutil.rmtree(owner.run.folder.path)
    return result, copy


def test_the_files_of_a_run_come_back_whole(steps, owned):
    result, copy = owned
    copy.unpack()
    folder = steps[1].run.folder
    assert folder.finished
    assert folder.result() == result
    assert folder.report_file.is_file()
    assert [file.name for file in sorted(folder.checkpoints.iterdir())] == [
        "stage1-0000001.safetensors",
        "stage2-0000001.safetensors",
    ]
    assert not (folder.path / ".lock").exists()


def test_a_second_stage_starts_where_another_machine_ended_the_first(steps, owned):
    place, owner, borrower = steps
    shutil.rmtree(owner.run.folder.path, ignore_errors=True)
    result, copy = train(place, borrower, None, owned[1])
    assert result.stages[0].top1 == owned[0].stages[0].top1
    assert copy.folder == borrower.run.folder.path


def test_a_machine_that_shares_the_folder_sends_nothing(steps):
    place, owner, _ = steps
    (place / "token").touch()
    result, copy = train(place, owner, token="token")
    assert result.method == "gcl"
    assert copy is None


def test_a_run_that_a_machine_has_begun_is_not_overwritten_by_an_older_copy(steps, owned):
    place, owner, _ = steps
    owned[1].unpack()
    older = folder_copy(owner.run.folder)
    older.files["log.jsonl"] = b""
    train(place, owner, older)
    assert owner.run.folder.log()


def test_of_the_checkpoints_only_the_last_of_each_stage_travels(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.checkpoints.mkdir(parents=True)
    names = ["stage1-0000001", "stage1-0000002", "stage2-0000003", "stage2-0000004"]
    for name in names:
        (folder.checkpoints / f"{name}.safetensors").touch()
    for name in ("recipe.toml", ".lock", ".tmp-" + "0a" * 16):
        (folder.path / name).touch()
    kept = {"recipe.toml", *(f"checkpoint/{name}.safetensors" for name in names[1::2])}
    assert set(folder_copy(folder).files) == kept


def test_what_fails_names_the_machine(steps, monkeypatch):
    place, owner, _ = steps

    def closed(observer):
        raise TailcloudError("cifar10-lt:100 needs CIFAR-10 in data/")

    monkeypatch.setattr("platform.node", lambda: "node7")
    setup = WorkerSetup(place / "token", place, 1)
    outcome, _ = work(0, closed, owner.run.folder, setup, Nobody())
    assert str(outcome) == "cifar10-lt:100 needs CIFAR-10 in data/ [on the machine node7]"
    outcome, _ = work(0, lambda observer: 1 / 0, owner.run.folder, setup, Nobody())
    assert "this should not have happened (ZeroDivisionError" in str(outcome)
    outcome, _ = work(0, closed, owner.run.folder, WorkerSetup(place / "token", place, 1, version="9"), Nobody())
    assert "install the same version on every machine [on the machine node7]" in str(outcome)
