"""How the steps of an epoch are run. All executors compute the same: the same draws, batches and formulas.

``base`` says what an executor is, ``step`` what one training step does. ``eager`` runs step by step, ``compiled`` uses
``torch.compile``, ``cuda_graph`` replays captured steps, ``micro_batch`` runs batches that are cut into micro-batches.
"""

from collections.abc import Callable

from tailcloud.data.loaders.base import Loader
from tailcloud.training.executors.base import Executor
from tailcloud.training.executors.compiled import CompiledExecutor
from tailcloud.training.executors.cuda_graph import GraphedExecutor
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.executors.step import TrainingStep

__all__ = ["EXECUTORS"]

EXECUTORS: dict[str, Callable[[TrainingStep, Loader], Executor]] = {
    "eager": EagerExecutor,
    "compiled": CompiledExecutor,
    "graphed": GraphedExecutor,
}
