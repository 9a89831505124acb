"""ResNet for larger images (He et al., CVPR 2016, section 4.1), its parameters named as in the published weights.

Stem, four stages of widths 64, 128, 256, 512, global average pooling. The usual stem halves the image twice before the
first block; the one for small images keeps every pixel.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone, global_average_pool

SMALL_STEM_SUFFIX = "-small"


class Block(nn.Module):
    """Convolutions with a shortcut, which is a 1×1 convolution if the shape changes."""

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.build(inputs, width, stride)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def build(self, inputs: int, width: int, stride: int) -> None:
        """Two 3×3 convolutions."""
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """A batch of feature maps through the block."""
        shortcut = self.downsample(x) if self.downsample else x
        y: Tensor = self.inner(x)
        y += shortcut
        return F.relu(y, inplace=True)

    def inner(self, x: Tensor) -> Tensor:
        """The residual branch."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        maps: Tensor = self.bn2(self.conv2(y))
        return maps


class Bottleneck(Block):
    """1×1, 3×3 and 1×1 convolutions, the last one four times as wide; the 3×3 one has the stride."""

    expansion: ClassVar[int] = 4

    def build(self, inputs: int, width: int, stride: int) -> None:
        """Three convolutions."""
        inner, groups = self.shape(width)
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)

    def shape(self, width: int) -> tuple[int, int]:
        """Channels and groups of the 3×3 convolution."""
        return width, 1

    def inner(self, x: Tensor) -> Tensor:
        """The residual branch."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        maps: Tensor = self.bn3(self.conv3(y))
        return maps


class GroupedBottleneck(Bottleneck):
    """A bottleneck of 32 groups, 4 channels each where the first stage is 64 wide (Xie et al., CVPR 2017)."""

    groups: ClassVar[int] = 32

    def shape(self, width: int) -> tuple[int, int]:
        """Channels and groups of the 3×3 convolution."""
        return self.groups * max(1, width // 16), self.groups


class ResNet(Backbone):
    """``blocks`` in each of four stages; any image size and number of channels.

    Args:
        kind: ``Block`` or ``Bottleneck``.
        blocks: number of blocks of each stage.
        small: a 3×3 stem without stride or pooling, for images of less than about 96 pixels.
        channels: image channels.
        width: multiplies all channel counts.
    """

    sequential = True

    def __init__(
        self, kind: type[Block], blocks: Sequence[int], *, small: bool = False, channels: int = 3, width: float = 1.0
    ) -> None:
        super().__init__()
        widths = [max(1, round(base * width)) for base in (64, 128, 256, 512)]
        self.features, self.small = widths[-1] * kind.expansion, small
        shape = (3, 1, 1) if small else (7, 2, 3)
        self.conv1 = nn.Conv2d(channels, widths[0], shape[0], shape[1], padding=shape[2], bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        for number, (count, outputs) in enumerate(zip(blocks, widths, strict=True), start=1):
            stage = _stage(kind, count, inputs, outputs, stride=1 if number == 1 else 2)
            self.add_module(f"layer{number}", stage)
            inputs = outputs * kind.expansion
        kaiming(self)

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        return global_average_pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """Feature maps of the last stage."""
        maps = images
        for number in range(5):
            maps = self.layer(number, maps)
        return maps

    def layer(self, number: int, maps: Tensor) -> Tensor:
        """Feature maps through the stem, which is number 0, or through a stage."""
        if number:
            stage: Tensor = self.get_submodule(f"layer{number}")(maps)
            return stage
        stem = F.relu(self.bn1(self.conv1(maps)), inplace=True)
        return stem if self.small else F.max_pool2d(stem, 3, 2, padding=1)

    def layers(self) -> list[list[str]]:
        """The stem and each stage."""
        return [["conv1", "bn1"], *([f"layer{number}"] for number in range(1, 5))]


def kaiming(network: nn.Module) -> None:
    """Initialise convolutions: Kaiming-normal, by fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _stage(kind: type[Block], count: int, inputs: int, width: int, stride: int) -> nn.Sequential:
    first = kind(inputs, width, stride)
    return nn.Sequential(first, *(kind(width * kind.expansion, width, 1) for _ in range(count - 1)))


RESNETS: dict[str, tuple[type[Block], tuple[int, ...]]] = {
    "resnet18": (Block, (2, 2, 2, 2)),
    "resnet34": (Block, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
    "resnext50_32x4d": (GroupedBottleneck, (3, 4, 6, 3)),
}
