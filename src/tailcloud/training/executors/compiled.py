"""Steps whose forward pass and loss, and through them the backward pass, are compiled by ``torch.compile``.

Nothing random happens inside: the clouds' noise is drawn before and passed in. The update stays outside, and with it
the learning rate; so does evaluation. Shapes are static: a smaller last batch is compiled for itself.
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
from tailcloud.training.executors.cuda_graph import EagerExecutor

BACKEND = "inductor"
VARIANTS = 1_000_000  # as many as there are: PyTorch would give up after eight, over all runs of a process
LONGEST_CAUSE = 200  # characters

_compiling = Lock()  # one run at a time, whatever other runs do meanwhile


class CannotCompile(Exception):
    """There is no compiler, or it failed; nothing was changed, and steps run eagerly."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"torch.compile failed here ({cause_of(error)}), so the steps run eagerly: "
            "the result will be as good, but not bit for bit that of a compiled run."
        )


class CompiledExecutor(EagerExecutor):
    """One step after the other, in compiled code once ``prepare`` has made it."""

    def prepare(self) -> None:
        """Compile for every size of batch, or raise ``CannotCompile`` and stay eager."""
        plain = self.step
        try:
            with _compiling, quiet(), unlimited():
                self.step = replace(plain, objective=Compiled(plain.objective))
                self.rehearse()
        except Exception as error:
            self.step = plain
            raise CannotCompile(error) from None


class Compiled(Objective):
    """An objective in compiled code."""

    def __init__(self, plain: Objective) -> None:
        super().__init__(plain.loss)
        self.plain = plain
        self.compute = torch.compile(plain.forward, fullgraph=True, dynamic=False, backend=BACKEND)

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """As it is without compiling."""
        return self.plain.draw(batch, generator)

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        return self.compute(network, batch, noise)


@contextmanager
def unlimited() -> Iterator[None]:
    """Compile as often as it takes; refuse where PyTorch was told not to compile, which it would pass over."""
    from torch._dynamo import config

    if config.disable:
        raise RuntimeError("TORCH_COMPILE_DISABLE is set")
    with config.patch(recompile_limit=VARIANTS, accumulated_recompile_limit=VARIANTS, suppress_errors=False):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what PyTorch remarks while it compiles off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def cause_of(error: Exception) -> str:
    """Why compiling failed, in a line: what was raised first, without PyTorch's wrapping and advice."""
    while isinstance(inner := getattr(error, "inner_exception", None), Exception):
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(".:") if lines else type(error).__name__
    return text if len(text) <= LONGEST_CAUSE else f"{text[: LONGEST_CAUSE - 1]}…"
