"""Small ResNets of several chains in fused kernels: a trunk and ends that take its maps, or whole networks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tailcloud.backbones.cifar_resnet import CifarResNet
from tailcloud.backbones.ensemble import Ensemble
from tailcloud.backbones.experts import ExpertResNet
from tailcloud.backbones.two_branch import TwoBranchResNet
from tailcloud.kernels.compile_together import Compilation
from tailcloud.kernels.residual import FusedChain, FusedResNet, as_maps, compile_chains, convolutions_of


class FusedBranches:
    """Computes the same as a ``TwoBranchResNet`` or an ``ExpertResNet``, from the same parameters.

    Each part is a chain of its own. PyTorch adds up what the ends give back to the trunk.
    """

    def __init__(
        self,
        backbone: TwoBranchResNet | ExpertResNet,
        height: int,
        width: int,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.backbone, self.dtype = backbone, dtype
        shared, ends = parts_of(backbone)
        convolutions = [(backbone.conv1, backbone.bn1), *convolutions_of(shared)]
        self.trunk = FusedChain(backbone, convolutions, height, width, dtype, stem=True, pooled=False)
        size = self.trunk.layers[-1].out
        self.ends = [FusedChain(backbone, convolutions_of(end), *size, dtype, stem=False, pooled=True) for end in ends]

    def __call__(self, images: Tensor) -> Tensor:
        """Features of all ends side by side, of normalised images [batch, channels, H, W].

        Of pairs [2, batch, channels, H, W], each end sees its own.
        """
        if images.ndim == 5:
            maps = self.trunk.run(as_maps(images.flatten(0, 1), self.dtype))
            seen: Sequence[Tensor] = maps.chunk(len(self.ends))
        else:
            seen = [self.trunk.run(as_maps(images, self.dtype))] * len(self.ends)
        return torch.cat([end.run(own) for end, own in zip(self.ends, seen, strict=True)], dim=1)

    def compile(self, beside: Sequence[Compilation] = ()) -> None:
        """Compile every kernel of both passes, once per process."""
        compile_chains([self.trunk, *self.ends], beside)


def parts_of(backbone: TwoBranchResNet | ExpertResNet) -> tuple[list[nn.Module], list[list[nn.Module]]]:
    """The blocks that are shared, and those of each end."""
    if isinstance(backbone, TwoBranchResNet):
        shared = [*backbone.layer1, *backbone.layer2, *backbone.layer3]
        return shared, [[backbone.branch_a], [backbone.branch_b]]
    stages = [branch.children() for branch in backbone.branches]
    return [*backbone.layer1], [[block for stage in end for block in stage.children()] for end in stages]


class FusedEnsemble:
    """Computes the same as an ``Ensemble``: the features of whole networks, side by side."""

    def __init__(self, backbone: Ensemble, height: int, width: int) -> None:
        self.backbone = backbone
        self.networks = [fused_backbone(network, height, width) for network in backbone.networks]

    def __call__(self, images: Tensor) -> Tensor:
        """Features of all networks, of normalised images [batch, channels, H, W]."""
        return torch.cat([network(images) for network in self.networks], dim=1)

    def compile(self, beside: Sequence[Compilation] = ()) -> None:
        """Compile every kernel of both passes, once per process."""
        for network in self.networks:
            network.compile(beside)


def fused_backbone(backbone: nn.Module, height: int, width: int) -> FusedResNet | FusedBranches | FusedEnsemble:
    """A backbone that fits, in fused kernels."""
    if isinstance(backbone, Ensemble):
        return FusedEnsemble(backbone, height, width)
    if isinstance(backbone, TwoBranchResNet | ExpertResNet):
        return FusedBranches(backbone, height, width)
    assert isinstance(backbone, CifarResNet)
    return FusedResNet(backbone, height, width)
