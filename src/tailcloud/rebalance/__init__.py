"""Changes of the head by name: what a stage does to it before its first step."""

from collections.abc import Callable

from tailcloud.rebalance.base import Change, Trained
from tailcloud.rebalance.plain import Fresh, Keep

__all__ = ["CHANGES", "Change", "Trained"]

CHANGES: dict[str, Callable[..., Change]] = {
    "keep": Keep,
    "fresh": Fresh,
}
