"""Losses by name. Each also works in your own training loop: ``GCLLoss(counts)(cosine, target)``."""

from collections.abc import Callable

from tailcloud.losses.balanced_softmax import BalancedSoftmaxLoss
from tailcloud.losses.base import Loss
from tailcloud.losses.cross_entropy import CrossEntropyLoss
from tailcloud.losses.equalization import EqualizationLoss
from tailcloud.losses.focal import FocalLoss
from tailcloud.losses.gcl import GCLLoss
from tailcloud.losses.gcl_angular import GCLAngularLoss
from tailcloud.losses.label_aware_smoothing import LabelAwareSmoothingLoss
from tailcloud.losses.lade import LADELoss
from tailcloud.losses.ldam import LDAMLoss
from tailcloud.losses.logit_adjustment import LogitAdjustmentLoss
from tailcloud.losses.vector_scaling import VectorScalingLoss

__all__ = [
    "LOSSES",
    "BalancedSoftmaxLoss",
    "CrossEntropyLoss",
    "EqualizationLoss",
    "FocalLoss",
    "GCLAngularLoss",
    "GCLLoss",
    "LADELoss",
    "LDAMLoss",
    "LabelAwareSmoothingLoss",
    "LogitAdjustmentLoss",
    "Loss",
    "VectorScalingLoss",
]

LOSSES: dict[str, Callable[..., Loss]] = {
    "ce": CrossEntropyLoss,
    "focal": FocalLoss,
    "ldam": LDAMLoss,
    "logit-adjust": LogitAdjustmentLoss,
    "balanced-softmax": BalancedSoftmaxLoss,
    "vs": VectorScalingLoss,
    "eql": EqualizationLoss,
    "lade": LADELoss,
    "label-aware-smoothing": LabelAwareSmoothingLoss,
    "gcl": GCLLoss,
    "gcl-angular": GCLAngularLoss,
}
