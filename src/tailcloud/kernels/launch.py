"""Launch kernels, or only compile them, and turn compiler errors into ``CannotFuse``."""

from subprocess import CalledProcessError
from typing import Any

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


def reason(error: Exception) -> str:
    """Why a kernel did not compile, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
