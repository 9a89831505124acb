"""Objectives by name: what a stage minimises on one batch."""

from collections.abc import Callable

from tailcloud.objectives.base import Network, Objective
from tailcloud.objectives.classify import Classify

__all__ = ["OBJECTIVES", "Classify", "Network", "Objective"]

OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "classify": Classify,
}
