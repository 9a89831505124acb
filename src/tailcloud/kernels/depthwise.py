"""Convolutions of EfficientNet-Lite on a GPU: depthwise ones by own kernels, 1×1 ones as matrix products.

PyTorch asks cuDNN for an algorithm for each shape, forward and backward: ten seconds before the first step. These
kernels are compiled once per machine, several at a time (``compilations``). Activations are [image, row, column,
channel] in memory, products are added in float32, and TensorFlow's padding ("same": the odd pixel after the image)
costs no copy.
"""

from collections.abc import Iterable
from functools import partial
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
import triton
from torch import Tensor

from tailcloud.kernels.compile_together import Compilation
from tailcloud.kernels.depthwise_convolution import add_weight_gradients, filter_gradients, filter_maps
from tailcloud.kernels.launch import launch

TILE = 2048  # numbers of a feature map per program
MOST_COLUMNS, MOST_CHANNELS = 32, 256
WEIGHT_TILE, MOST_WEIGHT_COLUMNS = 256, 8  # of the weight gradient, which has the taps of a row beside them
WEIGHT_PROGRAMS = 4096  # about so many share the sum over all pixels


def geometry(maps: Tensor, kernel: int, stride: int) -> tuple[int, ...]:
    """Rows and columns of the output, of the input, channels, and the padding above and on the left."""
    channels, height, width = maps.shape[1:]
    rows, columns = ceil(height / stride), ceil(width / stride)
    top, left = (max(0, (out - 1) * stride + kernel - size) // 2 for out, size in ((rows, height), (columns, width)))
    return rows, columns, height, width, channels, top, left


def in_memory_order(maps: Tensor) -> Tensor:
    """Feature maps with channels last in memory."""
    return maps.contiguous(memory_format=torch.channels_last)


def blocks(columns: int, channels: int, tile: int = TILE, most_columns: int = MOST_COLUMNS) -> dict[str, int]:
    """The powers of two that a program works with: ``tile`` numbers, of more channels where columns are few."""
    across = min(most_columns, triton.next_power_of_2(columns))
    deep = min(tile // across, MOST_CHANNELS, max(16, triton.next_power_of_2(channels)))
    return {"COLUMNS": across, "CHANNELS": deep}


def weight_blocks(columns: int, channels: int) -> dict[str, int]:
    """The same for the weight gradient."""
    return blocks(columns, channels, WEIGHT_TILE, MOST_WEIGHT_COLUMNS)


def taps_first(weight: Tensor) -> Tensor:
    """Weights [channels, 1, K, K] as [K·K, channels]: neighbouring channels are read at once."""
    return weight.flatten(1).t().contiguous()


def compilations(shapes: Iterable[tuple[int, int, int, int, int]]) -> list[Compilation]:
    """What compiles the kernels of depthwise convolutions; ``shapes`` are those of ``_compile_one``.

    Convolutions that need the same variants of all kernels are compiled once.
    """
    variants = {}
    for channels, kernel, stride, height, width in shapes:
        columns = ceil(width / stride)
        tiles = blocks(columns, channels), blocks(width, channels), weight_blocks(columns, channels)
        key = kernel, stride, channels % 16 == 0, *(size for tile in tiles for size in tile.values())
        variants[key] = channels, kernel, stride, height, width
    return [partial(_compile_one, *shape) for shape in variants.values()]


def _compile_one(channels: int, kernel: int, stride: int, height: int, width: int) -> None:
    """Both passes on tensors without data: channels, kernel and stride, and height and width of the input maps."""
    maps = torch.empty(2, channels, height, width, device="meta", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.empty(channels, 1, kernel, kernel, device="meta", requires_grad=True)
    convolve(maps, weight, stride).sum().backward()


class DepthwiseConvolution(torch.autograd.Function):
    """A depthwise convolution of maps [batch, channels, H, W] with weights [channels, 1, K, K]."""

    @staticmethod
    def forward(context: Any, maps: Tensor, weight: Tensor, stride: int) -> Tensor:
        """The output maps, in the type of the input maps."""
        maps, kernel = in_memory_order(maps), weight.shape[-1]
        context.save_for_backward(maps, weight)
        context.stride = stride
        images, sizes = len(maps), geometry(maps, kernel, stride)
        rows, columns, _, _, channels, *_ = sizes
        result = maps.new_empty(images, rows, columns, channels).permute(0, 3, 1, 2)
        tile = blocks(columns, channels)
        grid = images * rows, triton.cdiv(channels, tile["CHANNELS"]), triton.cdiv(columns, tile["COLUMNS"])
        launch(filter_maps, grid, maps, taps_first(weight), result, *sizes, K=kernel, S=stride, **tile)
        return result

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients of maps and weights; sums do not depend on the order in which programs run."""
        maps, weight = context.saved_tensors
        gradient, kernel = in_memory_order(gradient), weight.shape[-1]
        images, sizes, steps = len(maps), geometry(maps, kernel, context.stride), {"K": kernel, "S": context.stride}
        rows, columns, height, width, channels, *_ = sizes
        result, tile = torch.empty_like(maps), blocks(width, channels)
        grid = images * height, triton.cdiv(channels, tile["CHANNELS"]), triton.cdiv(width, tile["COLUMNS"])
        launch(filter_gradients, grid, gradient, taps_first(weight), result, *sizes, **steps, **tile)
        tile, taps = weight_blocks(columns, channels), triton.next_power_of_2(kernel)
        groups, lines = triton.cdiv(channels, tile["CHANNELS"]), images * rows
        each = triton.cdiv(lines, max(1, WEIGHT_PROGRAMS // (kernel * groups)))
        shares = triton.cdiv(lines, each)
        sums = torch.empty(shares, kernel, taps, channels, device=maps.device)
        grid = kernel, groups, shares
        launch(add_weight_gradients, grid, maps, gradient, sums, lines, each, *sizes, TAPS=taps, **steps, **tile)
        return result, sums.sum(0)[:, :kernel].permute(2, 0, 1).reshape(weight.shape).to(weight.dtype), None


def convolve(maps: Tensor, weight: Tensor, stride: int) -> Tensor:
    """A depthwise convolution, or a 1×1 convolution of stride 1, with TensorFlow's padding."""
    if weight.shape[-1] == 1:
        return F.linear(maps.permute(0, 2, 3, 1), weight.flatten(1)).permute(0, 3, 1, 2)
    result: Tensor = DepthwiseConvolution.apply(maps, weight, stride)
    return result
