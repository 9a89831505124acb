"""Copies of many tensors at once: all bits come back, and the copy is of one moment."""

import pytest
import torch

from tailcloud import flat_copy
from tailcloud.flat_copy import Snapshot, pack, to_cpu, unpack

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def tensors(device="cpu"):
    draw = torch.Generator().manual_seed(0)
    image = torch.randn(3, 4, 5, 6, generator=draw)
    made = {
        "flags": torch.tensor([True, False, True]),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "odd": torch.arange(3, dtype=torch.uint8),
        "image": image.to(memory_format=torch.channels_last),
        "transposed": torch.randn(5, 4, generator=draw).t(),
        "every other": torch.arange(10.0)[::2],
        "expanded": torch.ones(1).expand(4),
        "long": torch.arange(5),
        "double": torch.randn(3, dtype=torch.float64, generator=draw),
        "half": torch.randn(3, generator=draw).bfloat16(),
        "parameter": torch.nn.Parameter(torch.randn(2, 2, generator=draw)),
    }
    return {name: value.to(device) for name, value in made.items()}


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].device.type == "cpu"
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value.detach().cpu()), name


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_packed_is_unpacked_bit_for_bit(device):
    packed, layouts = pack(tensors(device))
    assert packed.ndim == 1
    check_equal(unpack(packed.cpu(), layouts), tensors())


@pytest.mark.parametrize("device", DEVICES)
def test_a_snapshot_does_not_change_with_its_tensors(device):
    alive = tensors(device)
    snapshot = Snapshot(alive)
    for name in ("scalar", "image", "parameter"):
        alive[name].detach().zero_()
    check_equal(snapshot.on_cpu(), tensors())


@pytest.mark.parametrize("device", DEVICES)
def test_a_list_comes_to_the_cpu_in_its_order(device):
    alive = tensors(device)
    check_equal(dict(zip(alive, to_cpu(list(alive.values())), strict=True)), tensors())


def test_tensors_on_the_cpu_are_not_copied():
    value = torch.zeros(3)
    assert to_cpu([value])[0] is value


@needs_gpu
def test_a_large_snapshot_comes_in_parts(monkeypatch):
    monkeypatch.setattr(flat_copy, "PINNED_BYTES", 7)
    check_equal(Snapshot(tensors("cuda")).on_cpu(), tensors())


@needs_gpu
def test_a_snapshot_waits_for_its_stream_and_the_stream_for_nobody():
    value = torch.zeros(2**20, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        value += 1
        snapshot = Snapshot({"value": value, "host": torch.ones(2)})
        value += 1
        assert not torch.cuda.current_stream().query()
    assert (snapshot.on_cpu()["value"] == 1).all()


@needs_gpu
def test_without_memory_on_the_device_tensors_are_copied_one_by_one(monkeypatch):
    def no_room(_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(flat_copy, "pack", no_room)
    alive = tensors("cuda")
    snapshot = Snapshot(alive)
    alive["image"].zero_()
    check_equal(snapshot.on_cpu(), tensors())
