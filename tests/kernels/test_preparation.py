"""A GPU is prepared in the background, once; what fails there is nobody's error."""

import subprocess
import sys

import pytest
import torch

from helpers.runs import Interrupted, Watcher, small_recipe
from tailcloud.kernels import preparation
from tailcloud.kernels.preparation import prepare
from tailcloud.launch import execute
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.runs.folder import RunFolder


@pytest.fixture(autouse=True)
def forgotten():
    prepare.cache_clear()
    yield
    prepare.cache_clear()


def end(threads):
    for thread in threads:
        thread.join()


def test_a_gpu_is_prepared_once(monkeypatch):
    cache = pytest.importorskip("triton.runtime.cache", reason="there is no triton on this machine")
    done = []
    monkeypatch.setattr(torch, "empty", lambda size, device: done.append(device))
    monkeypatch.setattr(cache, "triton_key", lambda: done.append("key"))
    for _ in range(2):
        end(prepare(torch.device("cuda")))
    assert sorted(map(str, done)) == ["cuda", "key"]


def test_a_cpu_needs_nothing():
    assert not prepare(torch.device("cpu"))


def test_a_failure_is_left_to_those_who_need_the_device(monkeypatch, recwarn):

    def fail(*_, **__):
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch, "empty", fail)
    monkeypatch.setattr(preparation, "find_spec", fail)
    end(prepare(torch.device("cuda")))
    assert not recwarn.list


def test_a_process_that_ends_meanwhile_ends_as_it_would():
    """With a daemon thread inside PyTorch, Python's end aborts the process: exit code 134."""
    program = """
import sys, torch
from tailcloud.kernels import preparation
work = torch.ones(1500, 1500)
torch.empty = lambda *_, **__: [work @ work for _ in range(10)]
preparation.prepare(torch.device("cuda"))
sys.exit(2)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")


def test_it_begins_before_the_data_are_read(monkeypatch, tmp_path):
    done = []

    def stop(recipe, source):
        done.append("data")
        raise Interrupted

    monkeypatch.setattr(preparation, "prepare", done.append)
    monkeypatch.setattr(execute, "open_data", stop)
    with pytest.raises(Interrupted):
        execute.execute(PlannedRun(RunFolder(tmp_path / "run"), small_recipe(), "tailcloud train"), "cpu", Watcher())
    assert done == [torch.device("cpu"), "data"]
