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

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
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
