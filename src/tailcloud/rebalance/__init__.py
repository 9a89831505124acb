"""Changes of the head by name: what a stage does to it before its first step."""

from collections.abc import Callable

from tailcloud.rebalance.base import Change, HeldOut, Trained
from tailcloud.rebalance.disalign import DisAlign
from tailcloud.rebalance.level import Level
from tailcloud.rebalance.logit_adjust import LogitAdjust
from tailcloud.rebalance.lws import LearnableScaling
from tailcloud.rebalance.memory import Remember
from tailcloud.rebalance.nearest_mean import NearestMean
from tailcloud.rebalance.plain import Fresh, Keep
from tailcloud.rebalance.tau_norm import TauNorm
from tailcloud.rebalance.tde import TotalDirectEffect
from tailcloud.rebalance.unit import Unit

__all__ = ["CHANGES", "Change", "HeldOut", "Trained"]

CHANGES: dict[str, Callable[..., Change]] = {
    "keep": Keep,
    "fresh": Fresh,
    "unit": Unit,
    "lws": LearnableScaling,
    "tau-norm": TauNorm,
    "nearest-mean": NearestMean,
    "logit-adjust": LogitAdjust,
    "level": Level,
    "disalign": DisAlign,
    "tde": TotalDirectEffect,
    "memory": Remember,
}
