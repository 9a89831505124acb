"""What many tests share: a run that takes a second, and somebody who watches it."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from multiprocessing import get_context

if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):  # each has its share of the cores, and so have its children
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))

import hypothesis
import pytest
import torch

from helpers.browser_pipe import Browser, find_browser
from helpers.runs import run, small_recipe
from helpers.warm_workers import WarmContext
from tailcloud.auto_recipe import timing
from tailcloud.launch import worker_process

torch.set_num_threads(1)
os.environ["TAILCLOUD_CACHE"] = tempfile.mkdtemp(prefix="tailcloud-tests-")  # nothing goes into the user's own cache
atexit.register(shutil.rmtree, os.environ["TAILCLOUD_CACHE"], ignore_errors=True)
# How long an example takes depends on who else computes. The whole suite, which runs in several processes, draws the
# same examples each time; a single file draws new ones.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=bool(workers))
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """A finished GCL run with two stages; tests must not change it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(folder, small_recipe())
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser with one page, for the tests of a file."""
    if (program := find_browser()) is None:
        pytest.skip("no browser: install chromium, or name one in CHROMIUM")
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="session", autouse=True)
def warm_workers():
    """Fleets start their workers from a process that has imported everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "get_context", WarmContext)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_timings():
    """A recipe is chosen after fewer trial steps than users have: less exact, but no test needs exact times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(timing.MIN_TIMED_SECONDS, "cpu", 0.1)
        patch.setitem(timing.TRIAL_STEPS, "cpu", (1, 4))
        patch.setitem(timing.TRIAL_TEST_IMAGES, "cpu", 16)
        yield


@pytest.fixture(scope="session")
def one_onnx_registry():
    """PyTorch reads 500 operators of ONNX anew for every export, which takes longer than a small model."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture
def new_interpreters(monkeypatch):
    """Fleets start their workers as users have them, for tests of how they start."""
    monkeypatch.setattr(worker_process, "get_context", get_context)
