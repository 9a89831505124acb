"""Backbones by name: ``create_backbone("resnet32")`` maps images to features."""

from collections.abc import Callable
from functools import partial

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.cifar_resnet import CifarResNet
from tailcloud.backbones.fresh import FRESH, FreshResNet
from tailcloud.backbones.resnet import RESNETS, ResNet
from tailcloud.backbones.resnet import SMALL as SMALL_STEM
from tailcloud.backbones.timm_models import PREFIX, TimmBackbone, check_timm
from tailcloud.backbones.two_branch import SUFFIX, TwoBranchLargeResNet, TwoBranchResNet
from tailcloud.errors import UsageError, unknown

__all__ = [
    "BACKBONES",
    "Backbone",
    "CifarResNet",
    "ResNet",
    "TwoBranchResNet",
    "branched",
    "check_backbone",
    "create_backbone",
]

DEPTHS = {f"resnet{6 * blocks + 2}": blocks for blocks in (1, 3, 5, 7, 9, 18)}

BACKBONES: dict[str, Callable[..., Backbone]] = {
    **{name: partial(CifarResNet, blocks) for name, blocks in DEPTHS.items()},
    **{name + SUFFIX: partial(TwoBranchResNet, blocks) for name, blocks in DEPTHS.items()},
    **{name: partial(ResNet, *parts) for name, parts in RESNETS.items()},
    **{name + SUFFIX: partial(TwoBranchLargeResNet, *parts) for name, parts in RESNETS.items()},
    **{name + FRESH: partial(FreshResNet, *parts) for name, parts in RESNETS.items()},
    **{name + SMALL_STEM: partial(ResNet, *parts, small=True) for name, parts in RESNETS.items()},
}


def branched(name: str, branches: int) -> str:
    """The name of a backbone that shall have so many branches; these take the place of a block that is new."""
    return name.removesuffix(FRESH) + SUFFIX if branches == 2 and not name.endswith(SUFFIX) else name


def check_backbone(name: str) -> None:
    """There is such a backbone: ours, a plugin's, or timm's as ``timm:NAME``."""
    if name.startswith(PREFIX):
        check_timm(name)
    elif name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)


def create_backbone(name: str, *, channels: int = 3, width: float = 1.0) -> Backbone:
    """A fresh backbone; ``.features`` is the length of its feature vectors, ``width`` multiplies all channel counts."""
    check_backbone(name)
    if not 0 < width <= 64:
        raise UsageError(f"model.width = {width} must lie above 0 and be at most 64")
    if name.startswith(PREFIX):
        return TimmBackbone(name, channels=channels, width=width)
    return BACKBONES[name](channels=channels, width=width)
