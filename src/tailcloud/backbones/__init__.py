"""Backbones by name: ``create_backbone("resnet32")`` maps images to features."""

from collections.abc import Callable
from functools import partial

from tailcloud.backbones.cifar_resnet import CifarResNet
from tailcloud.backbones.two_branch import SUFFIX, TwoBranchResNet
from tailcloud.errors import UsageError, unknown

__all__ = ["BACKBONES", "CifarResNet", "TwoBranchResNet", "branched", "create_backbone"]

DEPTHS = {f"resnet{6 * blocks + 2}": blocks for blocks in (1, 3, 5, 7, 9, 18)}

BACKBONES: dict[str, Callable[..., CifarResNet]] = {
    **{name: partial(CifarResNet, blocks) for name, blocks in DEPTHS.items()},
    **{name + SUFFIX: partial(TwoBranchResNet, blocks) for name, blocks in DEPTHS.items()},
}


def branched(name: str, branches: int) -> str:
    """The name of a backbone that shall have so many branches."""
    return name + SUFFIX if branches == 2 and not name.endswith(SUFFIX) else name


def create_backbone(name: str, *, channels: int = 3, width: float = 1.0) -> CifarResNet:
    """A fresh backbone; ``.features`` is the length of its feature vectors, ``width`` multiplies all channel counts."""
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    if not 0 < width <= 64:
        raise UsageError(f"model.width = {width} must lie above 0 and be at most 64")
    return BACKBONES[name](channels=channels, width=width)
