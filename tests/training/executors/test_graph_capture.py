"""Capturing, on a machine that has no graphs: the order of what happens on the two streams."""

from contextlib import contextmanager

import pytest
import torch

from tailcloud.training.executors.cuda_graph import capture


class Stream:
    def __init__(self, name, said):
        self.name, self.said = name, said

    def wait_stream(self, other):
        self.said.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def said(monkeypatch):
    """What two streams were told."""
    said = []
    current = [Stream("run", said)]

    @contextmanager
    def inside(stream):
        current.append(stream)
        try:
            yield
        finally:
            current.pop()

    class Graph:
        def capture_begin(self, capture_error_mode):
            said.append(f"begin on {current[-1].name}, {capture_error_mode}")

        def capture_end(self):
            said.append("end")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: said.append("clear"), raising=False)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: said.append("empty cache"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 40)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 20)
    monkeypatch.setattr(torch.cuda, "Stream", lambda priority: Stream("capture", said))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "stream", inside)
    return said


def test_after_a_warm_up_that_failed_the_run_waits_for_it_and_others_can_capture(said):
    """The model is put back on the stream of the run, while the warm-up may still be changing it on its own."""

    def fail():
        said.append("warm-up")
        raise MemoryError

    for _ in range(2):
        with pytest.raises(MemoryError):
            capture(fail, fail)
    assert said == ["capture waits for run", "warm-up", "run waits for capture"] * 2


def test_a_capture_warms_up_once_and_does_not_wait_for_other_runs(said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("synchronize"))
    capture(lambda: said.append("work"), lambda: said.append("warm-up"))
    warm_up = ["capture waits for run", "warm-up", "run waits for capture"]
    captured = ["begin on capture, thread_local", "work", "end", "run waits for capture"]
    assert said == [*warm_up, "clear", *captured, "clear"]


def test_cached_memory_is_given_back_before_a_capture_if_memory_is_short(said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (39, 200))
    capture(lambda: said.append("work"), lambda: None)
    assert said.index("empty cache") < said.index("begin on capture, thread_local")


def test_a_capture_that_fails_is_ended_and_others_can_capture(said):
    def fail():
        raise MemoryError

    for _ in range(2):
        with pytest.raises(MemoryError):
            capture(fail, lambda: None)
    assert said.count("end") == 2
