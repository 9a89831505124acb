"""What takes a while before the first kernel on a GPU, begun while the data are read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from threading import Thread

import torch


@cache
def prepare(device: torch.device) -> Sequence[Thread]:
    """Start CUDA and Triton, each in a thread, once per process; other devices need no preparation.

    Nobody has to wait for them: what is not ready when it is needed is made there, and what fails fails there again.
    The process ends after them: a thread that is in PyTorch while Python ends would abort the process.
    """
    works: list[Callable[[], None]] = [partial(_start_cuda, device), _digest_compiler] if device.type == "cuda" else []
    threads = [Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def _start_cuda(device: torch.device) -> None:
    with suppress(Exception):
        torch.empty(1, device=device)  # makes CUDA's context


def _digest_compiler() -> None:
    with suppress(Exception):
        if find_spec("triton"):
            from triton.runtime.cache import triton_key

            triton_key()  # the digest of the whole compiler, 400 MB, is in the key of each compiled kernel
