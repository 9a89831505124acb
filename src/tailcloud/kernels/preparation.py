"""What takes a while before the first kernel on a GPU, begun while the data are read."""

from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from threading import Thread

import torch


@cache
def prepare(device: torch.device) -> Thread | None:
    """Start CUDA and Triton in a thread, once per process; None for other devices, which need no preparation.

    Nobody has to wait for it: what is not ready when it is needed is made there, and what fails fails there again. The
    process ends after it: a thread that is in PyTorch while Python ends would abort the process.
    """
    if device.type != "cuda":
        return None
    thread = Thread(target=_prepare, args=[device])
    thread.start()
    return thread


def _prepare(device: torch.device) -> None:
    with suppress(Exception):
        torch.empty(1, device=device)  # makes CUDA's context
        if find_spec("triton"):
            from triton.runtime.cache import triton_key

            triton_key()  # the digest of the whole compiler, 400 MB, is in the key of each compiled kernel
