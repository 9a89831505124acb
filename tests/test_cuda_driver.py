"""The GPU's driver starts before PyTorch is imported; without one nothing happens."""

import ctypes
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tailcloud import cuda_driver
from tailcloud.cli import app
from tailcloud.cli import train as train_verb
from tailcloud.cuda_driver import start_driver


class Driver:
    """As much of a driver as is called; the function ``failing`` returns an error."""

    def __init__(self, failing=""):
        self.failing, self.called = failing, []

    def __getattr__(self, name):
        def call(*_arguments):
            self.called.append(name)
            return int(name == self.failing)

        return call


@pytest.mark.parametrize(
    ("failing", "called"),
    [
        ("", ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]),
        ("cuInit", ["cuInit"]),
        ("cuDeviceGet", ["cuInit", "cuDeviceGet"]),
    ],
    ids=["a GPU", "no GPU", "none is visible"],
)
def test_the_context_of_the_first_gpu_is_made(monkeypatch, failing, called):
    driver = Driver(failing)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver if name == cuda_driver.LIBRARY else None)
    start_driver().join()
    assert driver.called == called


def test_the_context_is_that_of_the_device_that_the_driver_names(monkeypatch):
    asked = []

    class Named(Driver):
        def cuDeviceGet(self, device, number):  # noqa: N802
            device._obj.value = 7 + number
            return 0

        def cuDevicePrimaryCtxRetain(self, context, device):  # noqa: N802
            asked.append((type(context._obj), device.value))
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Named())
    start_driver().join()
    assert asked == [(ctypes.c_void_p, 7)]


def test_without_a_driver_nothing_happens(monkeypatch):
    monkeypatch.setattr(cuda_driver, "LIBRARY", "no-such-library.so.1")
    start_driver().join()


@pytest.mark.parametrize(
    ("words", "variables", "starts"),
    [
        (["--device", "cuda"], {}, 1),
        ([], {}, 1),
        (["--device", "cpu"], {}, 0),
        (["--device", "cuda"], {"WORLD_SIZE": "2"}, 0),
    ],
    ids=["cuda", "auto", "cpu", "torchrun"],
)
def test_only_a_run_that_may_have_the_first_gpu_starts_it(monkeypatch, words, variables, starts):
    started = []
    monkeypatch.setattr(sys.modules[train_verb.__module__], "start_driver", lambda: started.append(1))
    # a wrong option ends the command before anything else
    CliRunner().invoke(app, ["train", *words, "--seed", "none"], env=variables)
    assert len(started) == starts


def test_it_starts_before_pytorch_is_imported():
    program = """
import sys
from tailcloud import cuda_driver
from tailcloud.cli import app, train
sys.modules[train.__module__].start_driver = lambda: print("torch" in sys.modules)
try:
    app(["train", "--seed", "none"])
except Exception:
    print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True"]
