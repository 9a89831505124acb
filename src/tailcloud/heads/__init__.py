"""Classifier heads by name: features in, one output per class out."""

from tailcloud.heads.base import Head
from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.linear import LinearHead

__all__ = ["HEADS", "CosineHead", "Head", "LinearHead"]

HEADS: dict[str, type[Head]] = {
    "linear": LinearHead,
    "cosine": CosineHead,
}
