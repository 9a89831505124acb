"""Freed memory stays with the process while a CPU trains, and not afterwards."""

import subprocess
import sys
from threading import Thread

import pytest
import torch

from tailcloud import freed_memory
from tailcloud.freed_memory import KEEP, USUAL, freed_memory_kept

LARGE = 64 * 2**20  # float32 numbers: 256 MB, more than glibc keeps by itself
glibc_only = pytest.mark.skipif(freed_memory._glibc() is None, reason="only glibc has these settings")


class FakeLibrary:
    def __init__(self):
        self.calls = []

    def mallopt(self, parameter, value):
        self.calls.append((parameter, value))

    def malloc_trim(self, pad):
        self.calls.append(("trim", pad))


@pytest.fixture
def library(monkeypatch):
    fake = FakeLibrary()
    monkeypatch.setattr(freed_memory, "_glibc", lambda: fake)
    return fake


HELD = """
import os, torch
from pathlib import Path
from tailcloud.freed_memory import freed_memory_kept

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before = resident()
with freed_memory_kept(on_cpu=True):
    torch.ones(64 * 2**20)
    inside = resident() - before
after = resident() - before
torch.ones(64 * 2**20)
print(inside, after, resident() - before)
"""


@glibc_only
def test_the_process_holds_freed_memory_inside_and_no_longer():
    """In a process of its own, which holds no other freed memory."""
    said = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True).stdout
    inside, after, later = map(int, said.split())
    assert inside > 0.8 * 4 * LARGE
    assert max(after, later) < 0.5 * 4 * LARGE


@glibc_only
def test_a_thread_can_take_more_than_an_arena_holds():
    sums = []
    with freed_memory_kept(on_cpu=True):
        thread = Thread(target=lambda: sums.append(torch.ones(LARGE, dtype=torch.float64).sum().item()))
        thread.start()
        thread.join()
    assert sums == [LARGE]


def test_the_last_context_gives_everything_back(library):
    with freed_memory_kept(on_cpu=True):
        with freed_memory_kept(on_cpu=True):
            pass
        assert ("trim", 0) not in library.calls
        assert set(library.calls) == set(KEEP)
    assert library.calls[-len(USUAL) - 1 :] == [*USUAL, ("trim", 0)]


def test_an_error_inside_gives_everything_back(library):
    with pytest.raises(ValueError, match="inside"), freed_memory_kept(on_cpu=True):
        raise ValueError("inside")
    assert library.calls[-1] == ("trim", 0)


def test_nothing_is_set_while_a_gpu_computes(library):
    with freed_memory_kept(on_cpu=False):
        pass
    assert library.calls == []


def test_settings_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert freed_memory._glibc.__wrapped__() is None


def test_nothing_happens_where_there_is_no_glibc(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(freed_memory, "_glibc", freed_memory._glibc.__wrapped__)
    with freed_memory_kept(on_cpu=True):
        pass
