"""Losses by name. Each works alone in anybody's training loop: ``GCLLoss(counts)(cosine, target)``."""

from collections.abc import Callable

from tailcloud.losses.base import Loss
from tailcloud.losses.cross_entropy import CrossEntropyLoss
from tailcloud.losses.gcl import GCLLoss

__all__ = ["LOSSES", "CrossEntropyLoss", "GCLLoss", "Loss"]

LOSSES: dict[str, Callable[..., Loss]] = {"ce": CrossEntropyLoss, "gcl": GCLLoss}
