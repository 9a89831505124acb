"""Optimisers by name. Their options are those of a recipe's ``optimizer``."""

from tailcloud.optimizers.adamw import AdamW
from tailcloud.optimizers.base import Optimizer, UpdateSettings
from tailcloud.optimizers.sam import SharpnessAware
from tailcloud.optimizers.sgd import SGD

__all__ = ["OPTIMIZERS", "SGD", "AdamW", "Optimizer", "SharpnessAware", "UpdateSettings"]

OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adamw": AdamW}
