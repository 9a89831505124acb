"""All variants of the batch-norm kernels are compiled before the first step, and read sixteen bytes at a time."""

import pytest
import torch

pytest.importorskip("triton", reason="there is no triton on this machine")

from triton import knobs
from triton.runtime import driver

from helpers.fake_gpu import FakeGpu
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.kernels import CannotFuse, FusedLayers, batch_norm, compile_together

LITE = Architecture("efficientnet_lite0", "linear", 1.0, 3, 5)
KERNELS = {"add_moments", "normalise", "add_gradients", "input_gradients"}


@pytest.fixture
def launches(monkeypatch):
    """What would be launched: kernels with their sizes, and whether there were data."""
    noted = []

    def note(kernel, grid, *arguments, **sizes):
        kinds = [str(each.dtype) if isinstance(each, torch.Tensor) else type(each).__name__ for each in arguments]
        noted.append((arguments[0].is_meta, (kernel.fn.__name__, *kinds, *sorted(sizes.items()))))

    monkeypatch.setattr(batch_norm, "launch", note)
    return noted


def steps(model):
    """Steps with moving and with frozen statistics, and an evaluation."""
    images = torch.zeros(2, 3, 64, 64)
    with torch.autocast("cpu", torch.bfloat16):
        for training in (True, False):
            model.train(training)(images).sum().backward()
        with torch.no_grad():
            model(images)


def test_what_is_compiled_is_what_steps_launch(launches):
    model = build_classifier(LITE, 0)
    FusedLayers(model, convolutions=False).compile(64, 64)
    assert all(without_data for without_data, _ in launches)
    compiled = {variant for _, variant in launches}
    launches.clear()
    steps(model.to(memory_format=torch.channels_last))
    assert not any(without_data for without_data, _ in launches)
    assert {variant for _, variant in launches} == compiled
    assert {name for name, *_ in compiled} == KERNELS
    assert len(launches) == 49 * (4 + 3 + 1)  # moving: two forward, two backward; frozen: one and two; evaluation


def test_frozen_norms_in_a_frozen_network_add_nothing_up(launches):
    model = build_classifier(LITE, 0).eval()
    FusedLayers(model, convolutions=False)
    model.backbone.requires_grad_(False)
    model.to(memory_format=torch.channels_last)
    model.backbone.bn2.weight.requires_grad_()  # of the last norm
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.zeros(2, 3, 64, 64)).sum().backward()
    assert [name for _, (name, *_) in launches] == ["normalise"] * 49 + ["add_gradients"]


def test_kernels_that_do_not_compile_say_so(monkeypatch):
    def fail(*_, **__):
        raise CannotFuse("no such luck")

    monkeypatch.setattr(batch_norm, "launch", fail)
    with pytest.raises(CannotFuse, match="no such luck"):
        FusedLayers(build_classifier(LITE, 0), convolutions=False).compile(64, 64)


@pytest.mark.skipif(knobs.runtime.interpret, reason="kernels are interpreted, not compiled")
@pytest.mark.parametrize("arch", [80, 90])
def test_they_compile_for_gpus_and_read_sixteen_bytes_at_a_time(monkeypatch, tmp_path, arch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", FakeGpu(arch))
    compiled = []

    def compile_now(kernel, grid, *arguments, **sizes):
        compiled.append((kernel.fn.__name__, kernel.warmup(*arguments, grid=grid, **sizes)))

    monkeypatch.setattr(batch_norm, "launch", compile_now)
    compile_together.compile_in_threads(batch_norm.compilations())
    assert {name for name, _ in compiled} == KERNELS
    for name, kernel in compiled:
        assert "ld.global.v4.b32" in kernel.asm["ptx"], name
        assert kernel.metadata.shared <= 1024, name  # blocks stay in registers
