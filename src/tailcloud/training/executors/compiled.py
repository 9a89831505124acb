"""Compiled execution: ``torch.compile`` for the forward pass and loss, and through them the backward pass.

Noise is drawn outside and passed in. The optimiser's update and evaluation are not compiled. Shapes are static: a
smaller last batch is compiled separately.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.objectives import Network, Objective
from tailcloud.training.executors.eager import EagerExecutor

BACKEND = "inductor"
MOST_VARIANTS = 1_000_000  # no limit: PyTorch would stop after eight, over all runs of a process
LONGEST_CAUSE = 200  # characters

_compiling = Lock()  # one compilation at a time, whatever other runs of this process do meanwhile


class CannotCompile(Exception):
    """Compiling failed, or there is no compiler; nothing was changed, and steps run eagerly."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"torch.compile failed here ({cause_of(error)}), so the steps run eagerly: "
            "the result is as good, but not bit-identical to that of a compiled run."
        )


class CompiledExecutor(EagerExecutor):
    """One step after the other, in the code that ``prepare`` compiles."""

    def prepare(self) -> None:
        """Compile for every batch size, or raise ``CannotCompile`` and stay eager."""
        plain = self.step
        try:
            with _compiling, without_logs(), without_recompile_limit():
                self.step = replace(plain, objective=CompiledObjective(plain.objective))
                self.warm_up()
        except Exception as error:
            self.step = plain
            raise CannotCompile(error) from None


class CompiledObjective(Objective):
    """An objective in compiled code."""

    def __init__(self, plain: Objective) -> None:
        super().__init__(plain.loss)
        self.plain = plain
        self.compute = torch.compile(plain.forward, fullgraph=True, dynamic=False, backend=BACKEND)

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """As without compiling."""
        return self.plain.draw(batch, generator)

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        return self.compute(network, batch, noise)


@contextmanager
def without_recompile_limit() -> Iterator[None]:
    """Compile as often as needed. Raises where TORCH_COMPILE_DISABLE is set, which PyTorch would silently obey."""
    from torch._dynamo import config

    if config.disable:
        raise RuntimeError("TORCH_COMPILE_DISABLE is set")
    with config.patch(recompile_limit=MOST_VARIANTS, accumulated_recompile_limit=MOST_VARIANTS, suppress_errors=False):
        yield


@contextmanager
def without_logs() -> Iterator[None]:
    """Hide the logs and warnings of the compiler."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def cause_of(error: Exception) -> str:
    """Why compiling failed, in one line: the innermost error, without PyTorch's advice."""
    while isinstance(inner := getattr(error, "inner_exception", None), Exception):
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(".:") if lines else type(error).__name__
    return text if len(text) <= LONGEST_CAUSE else f"{text[: LONGEST_CAUSE - 1]}…"
