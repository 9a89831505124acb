"""Batch norm of EfficientNet-Lite on a GPU, with the ReLU6 or the shortcut after it.

These layers are bound by memory, and PyTorch reads and writes the maps once for each operation. Here the forward pass
reads them for the statistics, and once more for the output; the backward pass reads maps and gradients for the sums,
and once more for the gradient. Activations are [image, row, column, channel] in memory; parameters, statistics and sums
are float32.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeGuard

import torch
import triton
from torch import Tensor, nn

from tailcloud.kernels.batch_norm_kernel import add_gradients, add_moments, input_gradients, normalise
from tailcloud.kernels.compile_together import Compilation
from tailcloud.kernels.depthwise import in_memory_order
from tailcloud.kernels.launch import launch

BLOCK = {"PIXELS": 128, "CHANNELS": 32}  # of a program: 64 bytes of each pixel, 32 numbers for each of its threads
SUM_PROGRAMS = 528  # about so many share the sums over all pixels: four for each multiprocessor of an H200
EIGHT = 8  # bfloat16 numbers are read at once


def fits(norm: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether the kernels can compute a layer: PyTorch's batch norm, not a synchronised one."""
    if type(norm) is not nn.BatchNorm2d or norm.num_features % EIGHT:
        return False
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def groups(channels: int) -> int:
    """How many programs share the channels of a pixel."""
    return int(triton.cdiv(channels, BLOCK["CHANNELS"]))


def pixels_of(maps: Tensor) -> int:
    """Pixels of all images."""
    return maps.numel() // maps.shape[1]


def shares(maps: Tensor) -> tuple[int, int]:
    """How many programs share the sum over all pixels, and how many pixels each adds up: whole blocks."""
    pixels, block = pixels_of(maps), BLOCK["PIXELS"]
    each = triton.cdiv(triton.cdiv(pixels, max(1, SUM_PROGRAMS // groups(maps.shape[1]))), block) * block
    return triton.cdiv(pixels, each), each


def launch_sums(kernel: Any, maps: Tensor, counters: Tensor, *tensors: Any, number: Any, **flags: bool) -> None:
    """Launch a kernel whose programs add up a share of the pixels each; ``number`` is eps or momentum."""
    channels, (count, each) = maps.shape[1], shares(maps)
    partial_sums = torch.empty(count, 2, channels, device=maps.device)
    sizes = pixels_of(maps), each, channels // EIGHT
    grid = (count * groups(channels),)
    launch(kernel, grid, maps, partial_sums, counters, *tensors, *sizes, number, **flags, **BLOCK)


def launch_blocks(kernel: Any, maps: Tensor, *tensors: Tensor, eps: float, **flags: bool) -> None:
    """Launch a kernel whose programs compute a block of pixels and channels each."""
    channels, pixels = maps.shape[1], pixels_of(maps)
    grid = (triton.cdiv(pixels, BLOCK["PIXELS"]) * groups(channels),)
    launch(kernel, grid, maps, *tensors, pixels, channels // EIGHT, eps, **flags, **BLOCK)


class Normalisation(torch.autograd.Function):
    """y = relu6(w·x̂ + b), or w·x̂ + b + shortcut, of maps [batch, channels, H, W]; mean and variance are given.

    With ``moving`` they are those of the maps, which their gradient knows.
    """

    @staticmethod
    def forward(
        context: Any, maps: Tensor, shortcut: Tensor | None, weight: Tensor, bias: Tensor,
        mean: Tensor, variance: Tensor, counters: Tensor, eps: float, moving: bool, relu6: bool,
    ) -> Tensor:  # fmt: skip
        """The output maps, in the type of the input maps."""
        context.save_for_backward(maps, weight, bias, mean, variance)
        context.counters, context.eps, context.moving, context.relu6 = counters, eps, moving, relu6
        result, added = torch.empty_like(maps), maps if shortcut is None else in_memory_order(shortcut)
        flags = {"RELU6": relu6, "SHORTCUT": shortcut is not None}
        launch_blocks(normalise, maps, added, result, weight, bias, mean, variance, eps=eps, **flags)
        return result

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of maps, shortcut, weight and bias; sums do not depend on the order in which programs run."""
        maps, *norm = context.saved_tensors
        of_maps, of_shortcut, of_weight, of_bias, *others = context.needs_input_grad
        gradient, eps, relu6 = in_memory_order(gradient), context.eps, {"RELU6": context.relu6}
        by_weight, by_bias = torch.empty(2, maps.shape[1], device=maps.device)
        if of_weight or of_bias or (of_maps and context.moving):
            launch_sums(add_gradients, maps, context.counters, gradient, by_weight, by_bias, *norm, number=eps, **relu6)
        result = torch.empty_like(maps) if of_maps else None
        if result is not None:
            flags = {**relu6, "MOVING": context.moving}
            launch_blocks(input_gradients, maps, gradient, result, by_weight, by_bias, *norm, eps=eps, **flags)
        return (
            result,
            gradient if of_shortcut else None,
            by_weight if of_weight else None,
            by_bias if of_bias else None,
            *[None] * len(others),
        )


class BatchNormKernel:
    """Computes the batch norms of a network, which share the counters of its programs: they run one after the other."""

    def __init__(self, norms: Sequence[nn.BatchNorm2d]) -> None:
        most = max(norm.num_features for norm in norms)
        self.counters = torch.zeros(groups(most), dtype=torch.int32, device=norms[0].weight.device)

    def __call__(
        self, norm: nn.BatchNorm2d, maps: Tensor, *, relu6: bool = False, shortcut: Tensor | None = None
    ) -> Tensor:
        """Batch norm of bfloat16 maps [batch, channels, H, W], then ReLU6 or a shortcut.

        In training mode, statistics are those of the maps, and the running ones move towards them.
        """
        maps = in_memory_order(maps)
        mean, variance = self.moments(norm, maps) if norm.training else (norm.running_mean, norm.running_var)
        result: Tensor = Normalisation.apply(
            maps, shortcut, norm.weight, norm.bias, mean, variance, self.counters, norm.eps, norm.training, relu6
        )
        return result

    def moments(self, norm: nn.BatchNorm2d, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel; the running statistics are updated."""
        if pixels_of(maps) == 1:
            norm(maps)  # which refuses it: one number has no variance
        mean, variance = torch.empty(2, norm.num_features, device=maps.device)
        running = norm.running_mean, norm.running_var, norm.num_batches_tracked
        launch_sums(add_moments, maps, self.counters, *running, mean, variance, number=norm.momentum)
        return mean, variance


def compilations() -> list[Compilation]:
    """What compiles each variant of the kernels: for norms before ReLU6, before a shortcut, and before neither."""
    uses = [{"relu6": True}, {"shortcut": True}, {}]
    return [partial(_compile_one, training, **use) for training in (True, False) for use in uses]


def _compile_one(training: bool, *, relu6: bool = False, shortcut: bool = False) -> None:
    """Both passes on tensors without data."""
    channels = BLOCK["CHANNELS"]
    maps = torch.empty(2, channels, 4, 4, device="meta", dtype=torch.bfloat16, requires_grad=True)
    norm = nn.BatchNorm2d(channels, device="meta").train(training)
    result = BatchNormKernel([norm])(norm, maps, relu6=relu6, shortcut=maps.detach() if shortcut else None)
    result.sum().backward()
