"""All variants of the depthwise kernels are compiled before the first step."""

import pytest
import torch

pytest.importorskip("triton", reason="there is no triton on this machine")

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.kernels import CannotFuse, FusedLayers, depthwise
from tailcloud.kernels.launch import launch

LITE = Architecture("efficientnet_lite0", "linear", 1.0, 3, 5)


@pytest.fixture
def launches(monkeypatch):
    """What would be launched: kernels with their sizes, and whether there were data."""
    noted = []

    def note(kernel, grid, *arguments, **sizes):
        special = arguments[kernel.arg_names.index("C")] % 16 == 0
        noted.append((arguments[0].is_meta, (kernel.fn.__name__, special, *sorted(sizes.items()))))

    monkeypatch.setattr(depthwise, "launch", note)
    return noted


@pytest.mark.parametrize("side", [64, 97, 128])
def test_what_is_compiled_is_what_steps_launch(launches, side):
    model = build_classifier(LITE, 0)
    FusedLayers(model, norms=False).compile(side, side)
    assert all(without_data for without_data, _ in launches)
    compiled = [variant for _, variant in launches]
    launches.clear()
    with torch.autocast("cpu", torch.bfloat16):
        model.to(memory_format=torch.channels_last)(torch.zeros(2, 3, side, side)).sum().backward()
    steps = [variant for _, variant in launches]
    assert set(steps) == set(compiled)
    assert len(compiled) < len(steps)


class Kernel:
    """A kernel that is compiled or run."""

    def __init__(self):
        self.done = []

    def warmup(self, *arguments, grid, **sizes):
        self.done.append("compiled")

    def __getitem__(self, grid):
        return lambda *arguments, **sizes: self.done.append("run")


def test_a_kernel_is_only_compiled_for_tensors_without_data():
    kernel = Kernel()
    launch(kernel, (1,), torch.empty(2, device="meta"))
    launch(kernel, (1,), torch.empty(2))
    assert kernel.done == ["compiled", "run"]


def test_kernels_that_do_not_compile_say_so(monkeypatch):
    def fail(*_, **__):
        raise CannotFuse("no such luck")

    monkeypatch.setattr(depthwise, "launch", fail)
    with pytest.raises(CannotFuse, match="no such luck"):
        FusedLayers(build_classifier(LITE, 0), norms=False).compile(64, 64)
