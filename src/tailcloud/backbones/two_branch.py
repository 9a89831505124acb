"""The backbone of BBN (Zhou et al., CVPR 2020): a ResNet with two copies of its last block."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tailcloud.backbones.base import global_average_pool
from tailcloud.backbones.cifar_resnet import BasicBlock, CifarResNet
from tailcloud.backbones.resnet import Block, ResNet, kaiming

TWO_BRANCH_SUFFIX = "-two-branch"


class TwoBranchResNet(CifarResNet):
    """For small images. ``forward`` concatenates the features of branch a and branch b: [batch, ``features``].

    Images [batch, channels, H, W] go through both branches. Pairs [2, batch, channels, H, W] go through the shared part
    together; then the first images go through branch a and the second through branch b.
    """

    def __init__(self, blocks: int, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__(blocks, channels=channels, width=width)
        *shared, last = self.layer3
        assert isinstance(last, BasicBlock)
        inputs, outputs = last.conv1.in_channels, last.conv1.out_channels
        self.layer3 = nn.Sequential(*shared)
        self.branch_a, self.branch_b = last, BasicBlock(inputs, outputs, last.stride)
        for conv in (self.branch_b.conv1, self.branch_b.conv2):
            nn.init.kaiming_normal_(conv.weight)
        self.features = 2 * outputs

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images, or of pairs of them."""
        return features_of_both(self, images)

    def layers(self) -> list[list[str]]:
        """Those of the ResNet, then both branches as one layer."""
        return [*super().layers(), ["branch_a", "branch_b"]]


class TwoBranchLargeResNet(ResNet):
    """The same for larger images. Published weights fill everything but the branches."""

    def __init__(self, kind: type[Block], blocks: Sequence[int], *, channels: int = 3, width: float = 1.0) -> None:
        *before, last = blocks
        super().__init__(kind, (*before, last - 1), channels=channels, width=width)
        self.branch_a, self.branch_b = (kind(self.features, self.features // kind.expansion, 1) for _ in range(2))
        kaiming(self.branch_a)
        kaiming(self.branch_b)
        self.features *= 2
        self.missing_in_files, self.unused_in_files = "branch_", f"layer{len(blocks)}.{last - 1}."

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images, or of pairs of them."""
        return features_of_both(self, images)

    def layers(self) -> list[list[str]]:
        """Those of the ResNet, then both branches as one layer."""
        return [*super().layers(), ["branch_a", "branch_b"]]


def features_of_both(backbone: TwoBranchResNet | TwoBranchLargeResNet, images: Tensor) -> Tensor:
    """The features of branch a and branch b side by side; of pairs of images, each branch sees its own."""
    paired = images.ndim == 5
    maps = backbone.maps(images.flatten(0, 1) if paired else images)
    usual, other = maps.chunk(2) if paired else (maps, maps)
    ends = backbone.branch_a(usual), backbone.branch_b(other)
    return torch.cat([global_average_pool(end) for end in ends], dim=1)
