"""Compile kernels before their first launch; those that are not on disk yet, in several processes.

Triton compiles partly in Python, and threads would wait for each other's turn. So processes fill Triton's cache on disk
(``compiler_process``), from which this process then takes what it would compile. What a process fails to compile, this
one compiles, or says why not: the result is the same without any of them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

import torch
from triton import knobs
from triton.runtime import cache, driver

from tailcloud.data.loaders.decoder_pool import ONE_THREAD, automatic_workers
from tailcloud.garbage_collection import collection_paused

Compilation = Callable[[], object]

FEW = 4  # so many compilations take less time than starting a process for them
MOST = 16  # processes; 50 MB of memory each
PATIENCE = 120.0  # seconds, after which processes that are not done are left out
START = """
import json, sys, types
sys.path[:] = json.loads(sys.argv[1])
sys.modules["tailcloud.kernels"] = package = types.ModuleType("tailcloud.kernels")
package.__path__ = [sys.argv[2]]  # without its __init__, which imports PyTorch
sys.modules["torch"] = None  # what needs it nevertheless is left to the parent
from tailcloud.kernels.compiler_process import main
main(*map(json.loads, sys.argv[3:]))
"""

_turn = Lock()  # of the threads of a fleet: what one has compiled, the next one finds


def compile_together(compilations: Sequence[Compilation]) -> None:
    """Compile kernels, several at a time if there are some that Triton's cache on disk does not have."""
    with _turn:
        waiting = list(compilations)
        while waiting:
            if is_new(waiting.pop(0)):
                with suppress(Exception):  # no processes, or another Triton: this process compiles everything
                    fill_cache(waiting)
                break
        compile_in_threads(waiting)


def is_new(compilation: Compilation) -> bool:
    """Compile; whether something of it was not on disk."""
    hits: list[bool] = []

    def note(*, cache_hit: bool, **_: Any) -> None:
        hits.append(cache_hit)

    with _hook(knobs.compilation, "listener", note):
        compilation()
    return not all(hits)


def compile_in_threads(compilations: Sequence[Compilation]) -> None:
    """Compile in this process, several at a time.

    Triton parses sources. In Python 3.11 (to 3.11.7), a garbage collection inside of a parser lets another thread parse
    meanwhile, and one of them fails (gh-106905): so nothing is collected here.
    """
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    start = None if device is None else partial(torch.cuda.set_device, device)
    with collection_paused(), ThreadPoolExecutor(initializer=start) as pool:
        for done in [pool.submit(work) for work in compilations]:
            done.result()


def fill_cache(compilations: Sequence[Compilation]) -> None:
    """Have processes compile into Triton's cache on disk; this process has compiled a kernel before."""
    workers = min(automatic_workers(), len(compilations), MOST)
    if workers < 2 or len(compilations) < FEW:
        return
    jobs = {job for compilation in compilations for job in jobs_of(compilation)}
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)  # a queue: each job goes to one process as a whole
    ours.settimeout(PATIENCE)
    with ours, compilers(workers, theirs) as processes:
        for job in sorted(jobs, key=len, reverse=True):  # large kernels first, about: processes end together
            ours.sendall(job)
        ours.close()  # processes end when there are no more jobs
        deadline = time.monotonic() + PATIENCE
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))


def jobs_of(compilation: Compilation) -> list[bytes]:
    """What a process is asked for: the kernels that a compilation would compile, as Triton describes them."""
    jobs: list[bytes] = []

    def note(*, fn: Any, compile: dict[str, Any], **_: Any) -> bool:
        jobs.append(json.dumps([fn.module, fn.name, compile["specialization_data"]]).encode())
        return True  # so that it is not compiled

    with _hook(knobs.runtime, "jit_cache_hook", note), suppress(Exception):  # an error comes again, in this process
        compilation()
    return jobs


@contextmanager
def _hook(place: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Have Triton call a function while this thread compiles; not for other threads, which may launch kernels."""
    before, thread = getattr(place, name), get_ident()

    def call(*arguments: Any, **values: Any) -> Any:
        chosen = function if get_ident() == thread else before
        return chosen and chosen(*arguments, **values)

    setattr(place, name, call)
    try:
        yield
    finally:
        setattr(place, name, before)


@contextmanager
def compilers(number: int, jobs: socket.socket) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """So many processes that take jobs from a socket, which only they have from then on; none is left at the end.

    They are new interpreters: a fork of this process would have its locks and its CUDA in the middle of what other
    threads do, and multiprocessing would run the user's script again. They import Triton, which takes a fifth of a
    second, but not PyTorch, and never touch the GPU. They end when their standard input does, so with this process.
    """
    target = asdict(driver.active.get_current_target()), cache.triton_key(), jobs.fileno()
    words = json.dumps(sys.path), str(Path(__file__).parent), *map(json.dumps, target)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with jobs:
            for _ in range(number):
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-c", START, *words],
                        pass_fds=[jobs.fileno()],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,  # so that Ctrl-C in a terminal does not reach it
                        env=os.environ | ONE_THREAD,
                    )
                )
        yield processes
    finally:
        for process in processes:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process, and the assembler that it may have started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin
    process.stdin.close()
