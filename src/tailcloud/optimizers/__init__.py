"""Optimisers by name: how weights follow their gradients. Their options are those of a recipe's ``optimizer``."""

from tailcloud.optimizers.adamw import AdamW
from tailcloud.optimizers.base import Optimizer, Pace
from tailcloud.optimizers.sgd import SGD

__all__ = ["OPTIMIZERS", "SGD", "AdamW", "Optimizer", "Pace"]

OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adamw": AdamW}
