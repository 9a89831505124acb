"""Changes of the head by name: what a stage does to it before its first step."""

from collections.abc import Callable

from tailcloud.head_transforms.base import HeadTransform, HeldOut, Trained
from tailcloud.head_transforms.disalign import DisAlign
from tailcloud.head_transforms.keep_or_fresh import Fresh, Keep
from tailcloud.head_transforms.logit_adjust import LogitAdjust
from tailcloud.head_transforms.lws import LearnableScaling
from tailcloud.head_transforms.nearest_mean import NearestMean
from tailcloud.head_transforms.oltr import Remember
from tailcloud.head_transforms.tau_norm import TauNorm
from tailcloud.head_transforms.tde import TotalDirectEffect
from tailcloud.head_transforms.tuned_logit_adjust import TunedLogitAdjust
from tailcloud.head_transforms.unit_norm import Unit

__all__ = ["HEAD_TRANSFORMS", "HeadTransform", "HeldOut", "Trained"]

HEAD_TRANSFORMS: dict[str, Callable[..., HeadTransform]] = {
    "keep": Keep,
    "fresh": Fresh,
    "unit": Unit,
    "lws": LearnableScaling,
    "tau-norm": TauNorm,
    "nearest-mean": NearestMean,
    "logit-adjust": LogitAdjust,
    "tuned-logit-adjust": TunedLogitAdjust,
    "disalign": DisAlign,
    "tde": TotalDirectEffect,
    "memory": Remember,
}
