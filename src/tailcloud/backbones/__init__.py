"""Backbones by name: ``create_backbone("resnet32")`` maps images to features."""

from collections.abc import Callable
from functools import partial

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.cifar_resnet import CifarResNet
from tailcloud.backbones.efficientnet_lite import EFFICIENTNETS, EfficientNetLite
from tailcloud.backbones.ensemble import Ensemble, ensemble_parts
from tailcloud.backbones.experts import ExpertResNet, experts_of, without_experts
from tailcloud.backbones.fresh_block import FRESH_SUFFIX, FreshResNet
from tailcloud.backbones.resnet import RESNETS, SMALL_STEM_SUFFIX, ResNet
from tailcloud.backbones.timm_models import TIMM_PREFIX, TimmBackbone, check_timm
from tailcloud.backbones.two_branch import TWO_BRANCH_SUFFIX, TwoBranchLargeResNet, TwoBranchResNet
from tailcloud.errors import UsageError, unknown

__all__ = [
    "BACKBONES",
    "Backbone",
    "CifarResNet",
    "EfficientNetLite",
    "Ensemble",
    "ExpertResNet",
    "ResNet",
    "TwoBranchResNet",
    "branched",
    "check_backbone",
    "create_backbone",
]

DEPTHS = {f"resnet{6 * blocks + 2}": blocks for blocks in (1, 3, 5, 7, 9, 18)}

BACKBONES: dict[str, Callable[..., Backbone]] = {
    **{name: partial(CifarResNet, blocks) for name, blocks in DEPTHS.items()},
    **{name + TWO_BRANCH_SUFFIX: partial(TwoBranchResNet, blocks) for name, blocks in DEPTHS.items()},
    **{name: partial(ResNet, *parts) for name, parts in RESNETS.items()},
    **{name + TWO_BRANCH_SUFFIX: partial(TwoBranchLargeResNet, *parts) for name, parts in RESNETS.items()},
    **{name + FRESH_SUFFIX: partial(FreshResNet, *parts) for name, parts in RESNETS.items()},
    **{name: partial(EfficientNetLite, *factors) for name, factors in EFFICIENTNETS.items()},
    **{name + SMALL_STEM_SUFFIX: partial(ResNet, *parts, small=True) for name, parts in RESNETS.items()},
}


def branched(name: str, branches: int) -> str:
    """The name of a backbone with that many branches; two branches replace a fresh block."""
    return (
        name.removesuffix(FRESH_SUFFIX) + TWO_BRANCH_SUFFIX
        if branches == 2 and not name.endswith(TWO_BRANCH_SUFFIX)
        else name
    )


def plain_name(name: str) -> str:
    """The backbone whose weights files this one reads: without a fresh block, a second branch or experts."""
    return without_experts(name).removesuffix(FRESH_SUFFIX).removesuffix(TWO_BRANCH_SUFFIX)


def check_backbone(name: str) -> None:
    """Refuse a name that is no backbone: tailcloud's, a plugin's, timm's as ``timm:NAME``, or several of one kind."""
    member, networks = ensemble_parts(name)
    if networks > 1:
        check_backbone(member)
    elif name.startswith(TIMM_PREFIX):
        check_timm(name)
    elif experts_of(name) > 1:
        check_expert_trunk(without_experts(name))
    elif name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)


def check_expert_trunk(name: str) -> None:
    """Refuse a backbone that cannot have experts."""
    if name not in DEPTHS:
        raise UsageError(
            f'experts work with {", ".join(DEPTHS)}, not with "{name}"; choose one of these, or set model.experts = 1'
        )


def create_backbone(name: str, *, channels: int = 3, width: float = 1.0) -> Backbone:
    """A backbone with fresh weights and ``.features``, the length of its feature vectors.

    ``width`` multiplies all channel counts.
    """
    check_backbone(name)
    if not 0 < width <= 64:
        raise UsageError(f"model.width = {width} must be greater than 0 and at most 64")
    member, networks = ensemble_parts(name)
    if networks > 1:
        return Ensemble([create_backbone(member, channels=channels, width=width) for _ in range(networks)])
    if name.startswith(TIMM_PREFIX):
        return TimmBackbone(name, channels=channels, width=width)
    if (experts := experts_of(name)) > 1:
        return ExpertResNet(DEPTHS[without_experts(name)], experts, channels=channels, width=width)
    return BACKBONES[name](channels=channels, width=width)
