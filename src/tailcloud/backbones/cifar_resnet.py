"""ResNet for small images (He et al., CVPR 2016, section 4.2): 6n + 2 layers, shortcuts without parameters.

Widths 16, 32, 64, strides 1, 2, 2; "option A" shortcuts; global average pooling to a non-negative feature.
"""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone, global_average_pool


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.grow = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """A batch of feature maps through the block."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y, inplace=True)

    def shortcut(self, x: Tensor) -> Tensor:
        """Option A: every second pixel, and zero channels on both sides.

        A 1×1 average pool picks pixels like a slice, but its gradient has the memory layout of the maps.
        """
        if self.stride == 1 and not self.grow:
            return x
        before = self.grow // 2
        return F.pad(F.avg_pool2d(x, 1, self.stride), (0, 0, 0, 0, before, self.grow - before))


class CifarResNet(Backbone):
    """``blocks`` basic blocks in each of three stages; any image size and number of channels.

    ``forward`` maps images [batch, channels, H, W] to features [batch, ``features``].
    """

    def __init__(self, blocks: int, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        widths = [max(1, round(base * width)) for base in (16, 32, 64)]
        self.widths, self.features = widths, widths[-1]
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.layer1 = make_stage(blocks, widths[0], widths[0], stride=1)
        self.layer2 = make_stage(blocks, widths[0], widths[1], stride=2)
        self.layer3 = make_stage(blocks, widths[1], widths[2], stride=2)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        return global_average_pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """Feature maps of the last stage."""
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        maps: Tensor = self.layer3(self.layer2(self.layer1(x)))
        return maps

    def layers(self) -> list[list[str]]:
        """The stem and each stage."""
        return [["conv1", "bn1"], ["layer1"], ["layer2"], ["layer3"]]


def make_stage(blocks: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Basic blocks one after the other; the first has the stride."""
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)))
