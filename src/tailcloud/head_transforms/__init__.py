"""Head transforms by name: how a stage changes the trained head before its first step."""

from collections.abc import Callable

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView
from tailcloud.head_transforms.disalign import DisAlign
from tailcloud.head_transforms.keep_or_fresh import FreshHead, KeepHead
from tailcloud.head_transforms.logit_adjust import LogitAdjust
from tailcloud.head_transforms.lws import LearnableScaling
from tailcloud.head_transforms.nearest_mean import NearestMean
from tailcloud.head_transforms.oltr import MemoryTransform
from tailcloud.head_transforms.tau_norm import TauNorm
from tailcloud.head_transforms.tde import TotalDirectEffect
from tailcloud.head_transforms.tuned_logit_adjust import TunedLogitAdjust
from tailcloud.head_transforms.unit_norm import UnitNorm

__all__ = ["HEAD_TRANSFORMS", "HeadTransform", "TrainedModelView"]

HEAD_TRANSFORMS: dict[str, Callable[..., HeadTransform]] = {
    "keep": KeepHead,
    "fresh": FreshHead,
    "unit": UnitNorm,
    "lws": LearnableScaling,
    "tau-norm": TauNorm,
    "nearest-mean": NearestMean,
    "logit-adjust": LogitAdjust,
    "tuned-logit-adjust": TunedLogitAdjust,
    "disalign": DisAlign,
    "tde": TotalDirectEffect,
    "memory": MemoryTransform,
}
