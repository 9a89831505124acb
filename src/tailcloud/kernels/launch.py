"""Launch kernels, or only compile them, and turn compiler errors into ``CannotFuse``."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import CalledProcessError
from typing import Any

import torch
from torch import Tensor
from triton.errors import TritonError

from tailcloud.kernels import CannotFuse

COMPILER_WORDS = ("compiler", "passmanager")  # in a RuntimeError: no compiler is installed, or a pass failed


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **sizes: Any) -> None:
    """Launch a kernel on a grid of programs; on tensors without data it is only compiled, so that it is known later."""
    try:
        if any(isinstance(each, Tensor) and each.is_meta for each in arguments[:1]):
            kernel.warmup(*arguments, grid=grid, **sizes)
        else:
            kernel[grid](*arguments, **sizes)
    except (TritonError, CalledProcessError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(word in str(error).lower() for word in COMPILER_WORDS):
            raise
        raise CannotFuse(reason(error)) from error


def compile_together(compilations: Sequence[Callable[[], object]]) -> None:
    """Compile kernels, several at a time.

    The first one alone: it makes a key of the whole compiler, which every thread would make for itself.
    """
    if not compilations:
        return
    first, *others = compilations
    first()
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    with ThreadPoolExecutor(initializer=None if device is None else partial(torch.cuda.set_device, device)) as pool:
        for done in [pool.submit(work) for work in others]:
            done.result()


def reason(error: Exception) -> str:
    """Why a kernel did not compile, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
