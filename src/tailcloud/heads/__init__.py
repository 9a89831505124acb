"""Classifier heads by name: features in, one output per class out."""

from tailcloud.heads.base import Head
from tailcloud.heads.bcl import BCLHead, CosineBCLHead
from tailcloud.heads.causal import CausalHead
from tailcloud.heads.contrastive import ContrastiveHead
from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.disalign import AlignedCosineHead, AlignedHead, AlignedLinearHead
from tailcloud.heads.experts import ExpertHeads
from tailcloud.heads.linear import LinearHead
from tailcloud.heads.nearest_mean import NearestMeanHead
from tailcloud.heads.oltr import MemoryHead
from tailcloud.heads.proco import CosineProCoHead, ProCoHead
from tailcloud.heads.scaled import ScaledCosineHead, ScaledHead, ScaledLinearHead

__all__ = [
    "HEADS",
    "AlignedHead",
    "BCLHead",
    "CausalHead",
    "ContrastiveHead",
    "CosineHead",
    "ExpertHeads",
    "Head",
    "LinearHead",
    "MemoryHead",
    "NearestMeanHead",
    "ProCoHead",
    "ScaledHead",
]

HEADS: dict[str, type[Head]] = {
    "linear": LinearHead,
    "cosine": CosineHead,
    "causal": CausalHead,
    "scaled-linear": ScaledLinearHead,
    "scaled-cosine": ScaledCosineHead,
    "disalign-linear": AlignedLinearHead,
    "disalign-cosine": AlignedCosineHead,
    "nearest-mean": NearestMeanHead,
    "contrastive": ContrastiveHead,
    "memory": MemoryHead,
    "bcl": BCLHead,
    "bcl-cosine": CosineBCLHead,
    "proco": ProCoHead,
    "proco-cosine": CosineProCoHead,
}


def inference_kind(kind: str) -> str:
    """The name of the head that is left of a trained one when its training is over; mostly the same."""
    return getattr(HEADS[kind], "inference", None) or kind  # a plugin's head may be any module
