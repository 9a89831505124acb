"""Objectives by name: what a stage minimises on one batch."""

from collections.abc import Callable

from tailcloud.objectives.base import Network, Objective, cut
from tailcloud.objectives.bbn import BBN
from tailcloud.objectives.bcl import BCL
from tailcloud.objectives.classify import Classify
from tailcloud.objectives.contrastive import Contrastive
from tailcloud.objectives.experts import Experts
from tailcloud.objectives.feature_noise import FeatureNoise
from tailcloud.objectives.oltr import MemoryObjective
from tailcloud.objectives.proco import ProCo

__all__ = [
    "BBN",
    "BCL",
    "OBJECTIVES",
    "Classify",
    "Contrastive",
    "Experts",
    "FeatureNoise",
    "MemoryObjective",
    "Network",
    "Objective",
    "ProCo",
    "cut",
]

OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "classify": Classify,
    "feature-noise": FeatureNoise,
    "bbn": BBN,
    "contrastive": Contrastive,
    "memory": MemoryObjective,
    "bcl": BCL,
    "proco": ProCo,
    "experts": Experts,
}
