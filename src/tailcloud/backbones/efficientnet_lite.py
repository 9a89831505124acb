"""EfficientNet-Lite (Tan & Le, ICML 2019; Liu, 2020): made for processors, without squeeze-and-excitation, with ReLU6.

Inverted residuals: a 1×1 convolution widens, a depthwise convolution filters, a 1×1 convolution narrows again. Padding
is TensorFlow's "same", since the published weights come from there. Parameters are named as in timm.
"""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from math import ceil

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone, global_average_pool
from tailcloud.errors import UsageError

EPSILON, MOMENTUM = 1e-3, 0.01  # of batch norm, as TensorFlow has them
STEM, FEATURES, MULTIPLE = 32, 1280, 8
STAGES = (  # blocks, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
EFFICIENTNETS = {  # factors of channels and blocks; stem, head and the number of blocks of the outer stages stay
    "efficientnet_lite0": (1.0, 1.0),
    "efficientnet_lite1": (1.0, 1.1),
    "efficientnet_lite2": (1.1, 1.2),
}


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding: ⌈size / stride⌉ outputs, the odd pixel after the image.

    ``kernel``, if it is set, computes it from bfloat16 maps, the weight and the stride.
    """

    kernel: Callable[[Tensor, Tensor, int], Tensor] | None = None

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps of the convolution."""
        (stride, _), (kernel, _) = self.stride, self.kernel_size
        if self.kernel and x.dtype == torch.bfloat16:
            return self.kernel(x, self.weight, stride)
        if stride > 1:
            tall, wide = (max(0, (ceil(size / stride) - 1) * stride + kernel - size) for size in x.shape[2:])
            x = F.pad(x, (wide // 2, wide - wide // 2, tall // 2, tall - tall // 2))
        return super().forward(x)


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm with TensorFlow's constants."""
    return nn.BatchNorm2d(channels, EPSILON, MOMENTUM)


def normalised(norm: nn.Module, maps: Tensor, *, relu6: bool = False, shortcut: Tensor | None = None) -> Tensor:
    """Batch norm, then ReLU6 or a shortcut.

    ``norm.kernel``, if it is set, computes all of it from bfloat16 maps. The norm may have been replaced: by a
    synchronised one, or by none if it was folded into the convolution.
    """
    kernel = getattr(norm, "kernel", None)
    if kernel and maps.dtype == torch.bfloat16:
        result: Tensor = kernel(norm, maps, relu6=relu6, shortcut=shortcut)
        return result
    result = F.relu6(norm(maps), inplace=True) if relu6 else norm(maps)
    return result if shortcut is None else shortcut + result


def block_output(norm: nn.Module, maps: Tensor, shortcut: Tensor | None, path_weight: Tensor | None) -> Tensor:
    """The last norm of a block, and its shortcut if it has one; ``path_weight`` [batch] multiplies the other branch."""
    if shortcut is None or path_weight is None:
        return normalised(norm, maps, shortcut=shortcut)
    return shortcut + normalised(norm, maps) * path_weight.to(maps.dtype)[:, None, None, None]


class DepthwiseBlock(nn.Module):
    """The first block: a depthwise and a 1×1 convolution, without widening."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv_dw, self.bn1 = SameConv2d(inputs, inputs, kernel, stride, groups=inputs), norm(inputs)
        self.conv_pw, self.bn2 = SameConv2d(inputs, outputs, 1), norm(outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor, path_weight: Tensor | None = None) -> Tensor:
        """A batch of feature maps through the block; ``path_weight`` [batch] multiplies the residual branch."""
        y = normalised(self.bn1, self.conv_dw(x), relu6=True)
        return block_output(self.bn2, self.conv_pw(y), x if self.shortcut else None, path_weight)


class InvertedResidual(nn.Module):
    """A block that widens by ``expansion``, filters and narrows again; a shortcut if the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.conv_pw, self.bn1 = SameConv2d(inputs, width, 1), norm(width)
        self.conv_dw, self.bn2 = SameConv2d(width, width, kernel, stride, groups=width), norm(width)
        self.conv_pwl, self.bn3 = SameConv2d(width, outputs, 1), norm(outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor, path_weight: Tensor | None = None) -> Tensor:
        """A batch of feature maps through the block; ``path_weight`` [batch] multiplies the residual branch."""
        y = normalised(self.bn1, self.conv_pw(x), relu6=True)
        y = normalised(self.bn2, self.conv_dw(y), relu6=True)
        return block_output(self.bn3, self.conv_pwl(y), x if self.shortcut else None, path_weight)


class EfficientNetLite(Backbone):
    """``forward`` maps images [batch, channels, H, W] to features [batch, 1280]."""

    mean, std = (127 / 255,) * 3, (128 / 255,) * 3
    sequential = True

    def __init__(self, widen: float, deepen: float, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        if width != 1.0:
            raise UsageError(f"model.width = {width:g} does not apply to EfficientNet-Lite; set it to 1")
        self.features = FEATURES
        self.conv_stem, self.bn1 = SameConv2d(channels, STEM, 3, 2), norm(STEM)
        stages, inputs = [], STEM
        for number, (count, kernel, stride, expansion, base) in enumerate(STAGES):
            outer = number in {0, len(STAGES) - 1}
            outputs, blocks = rounded(base * widen), list[nn.Module]()
            for block in range(count if outer else ceil(count * deepen)):
                step = stride if block == 0 else 1
                if expansion == 1:
                    blocks.append(DepthwiseBlock(inputs, outputs, kernel, step))
                else:
                    blocks.append(InvertedResidual(inputs, outputs, kernel, step, expansion))
                inputs = outputs
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = SameConv2d(inputs, FEATURES, 1), norm(FEATURES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor, path_weights: Tensor | None = None) -> Tensor:
        """Features of a batch of normalised images; ``path_weights`` are those of the residual branches."""
        weights = repeat(None) if path_weights is None else iter(path_weights.unbind(1))
        maps = images
        for number in range(len(self.blocks) + 2):
            maps = self.layer(number, maps, weights)
        return global_average_pool(maps)

    def layer(self, number: int, maps: Tensor, path_weights: Iterator[Tensor | None] | None = None) -> Tensor:
        """Feature maps through one of ``layers``; ``path_weights`` yields those of each residual branch."""
        weights = repeat(None) if path_weights is None else path_weights
        if number == 0:
            return normalised(self.bn1, self.conv_stem(maps), relu6=True)
        if number > len(self.blocks):
            return normalised(self.bn2, self.conv_head(maps), relu6=True)
        for block in self.blocks.get_submodule(str(number - 1)).children():
            maps = block(maps, next(weights)) if block.shortcut else block(maps)
        return maps

    def layers(self) -> list[list[str]]:
        """The stem, each stage, and the last convolution."""
        stages = [[f"blocks.{number}"] for number in range(len(self.blocks))]
        return [["conv_stem", "bn1"], *stages, ["conv_head", "bn2"]]

    def residual_blocks(self) -> list[nn.Module]:
        """The blocks with a shortcut."""
        return [block for block in chain(*self.blocks) if block.shortcut]


def rounded(channels: float) -> int:
    """A multiple of 8 that is at most a tenth smaller."""
    nearest = max(MULTIPLE, int(channels + MULTIPLE / 2) // MULTIPLE * MULTIPLE)
    return nearest if nearest >= 0.9 * channels else nearest + MULTIPLE
