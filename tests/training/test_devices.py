"""How many cores a run takes."""

import os

import pytest
import torch

from tailcloud.recipe import load_recipe
from tailcloud.training import devices


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", 8),
        ("300000 100000\n", 3),
        ("250000 100000\n", 2),
        ("10000 100000\n", 1),
        ("nonsense", 8),
        (None, 8),
    ],
)
def test_a_container_gets_as_many_threads_as_it_has_cores(tmp_path, monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(devices, "QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        devices.QUOTA.write_text(quota)
    assert devices.cores() == expected


def test_a_process_bound_to_some_cores_uses_those(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    devices.set_threads(load_recipe("digits-lt/gcl"), int(1e12))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("setting", "flops", "expected"), [(0, 1e6, 1), (3, 1e6, 3), (3, 1e12, 3)])
def test_small_steps_take_one_thread_unless_the_recipe_says_otherwise(setting, flops, expected):
    recipe = load_recipe("digits-lt/gcl", [{"engine": {"threads": setting}}])
    devices.set_threads(recipe, int(flops))
    assert torch.get_num_threads() == expected
