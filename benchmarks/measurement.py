"""Measure seconds and peak memory, and write records with machine, versions and commit."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tailcloud.files import write_json
from tailcloud.training.devices import commit, machine

RESULTS = Path(__file__).parent / "results"
Work = Callable[[], object]


def seconds(work: Work, device: torch.device, *, least: int = 1, budget: float = 0.0) -> float:
    """The fastest of some repetitions: at least so many, and as many as fit into ``budget`` seconds.

    On the CPU these are processor seconds, which other programs on the machine hardly disturb; use one thread.
    """
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    times: list[float] = []
    ends = time.perf_counter() + budget
    while len(times) < least or time.perf_counter() < ends:
        synchronize(device)
        started = clock()
        work()
        synchronize(device)
        times.append(clock() - started)
    return min(times)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def settle_memory() -> None:
    """Have the C library keep freed blocks of up to 31 MiB, as it does after a while in any long program (glibc raises
    its bounds to the largest block that was freed). Before that, small and large tensors are not comparable.
    """
    torch.empty(31 << 20, dtype=torch.uint8).fill_(0)


def host_peak(work: Work) -> int:
    """The most bytes of NumPy arrays and Python objects that the work has in memory at once, its result included."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def tensor_peak(work: Work, device: torch.device) -> int:
    """The most bytes of tensors that the work has in memory at once, beyond those that were there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    return _peak_of(watched)


def write_record(path: Path, content: dict[str, Any], device: torch.device) -> None:
    """A record of measurements: format, content, and the machine, versions and commit that they are from."""
    write_json(path, {**content, "machine": machine(device), "commit": commit()})


def _peak_of(watched: profile) -> int:
    """The maximum of the running sum of allocations and releases."""
    assert watched.profiler is not None
    assert watched.profiler.kineto_results is not None
    seen = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(seen, key=lambda event: event.start_ns()):
        held += event.nbytes()  # type: ignore[attr-defined]
        highest = max(highest, held)
    return highest
