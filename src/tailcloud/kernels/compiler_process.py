"""A process that compiles kernels into Triton's cache on disk, for its parent.

It needs neither PyTorch nor a GPU, so modules with kernels import nothing but Triton, and each other.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia
from triton.runtime import cache, driver

LARGEST_JOB = 1 << 20  # bytes


class Target:
    """As much of a driver as compiling asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        """The GPU of the parent."""
        return self.target

    def get_current_device(self) -> int:
        """Kernels are remembered by device."""
        return 0


def main(target: dict[str, Any], compiler_key: str, jobs: int) -> None:
    """Compile what comes from a socket, until its end.

    ``target`` is the parent's GPU, and ``compiler_key`` what ``triton_key()`` is there: the digest of all of Triton,
    which takes longer to make than a kernel.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    driver.set_active(Target(GPUTarget(**target)))
    cache.triton_key = lambda: compiler_key
    with socket.socket(fileno=jobs) as queue:
        while job := queue.recv(LARGEST_JOB):
            with suppress(Exception):  # the parent compiles it again, and says why it fails
                compile_job(job)
    os._exit(0)  # a process that keeps nothing need not tidy up


def compile_job(job: bytes) -> None:
    """Compile a kernel, which is named by its module and its function, as Triton describes it."""
    module, name, specialization = json.loads(job)
    kernel = getattr(import_module(module), name).preload(specialization)
    if hasattr(nvidia, "make_launcher"):  # until 3.6 a C compiler builds what launches a kernel, once per signature
        nvidia.CudaLauncher(kernel.src, kernel.metadata)


def end_with_parent() -> None:
    """Wait until the parent is gone, which then does not need the kernels."""
    sys.stdin.buffer.read()
    os._exit(1)
