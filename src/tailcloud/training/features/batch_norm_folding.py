"""Batch norm folded into the convolutions before it: on a CPU a frozen network is faster by half without it."""

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tailcloud.data.augment.normalize import Transform

TOLERANCE = 1e-3  # of the largest feature
CACHED_PIXELS = 256 * 32 * 32  # of the images whose feature maps fit into a CPU's cache
FEWEST, MOST = 4, 256  # images


def images_at_once(pixels: int) -> int:
    """The number of images of so many pixels that a folded network computes fastest at a time."""
    return max(FEWEST, min(MOST, CACHED_PIXELS // pixels))


@torch.no_grad()
def folded(network: nn.Module, images: Tensor) -> nn.Module:
    """A copy of a network in evaluation mode, its batch norms folded where they directly follow a convolution.

    ``images`` are a few inputs, on which it is tried. A network whose features would change (a convolution that is used
    twice, for example) is copied as it is.
    """
    plain = deepcopy(network).eval()
    pairs = _pairs(plain, images)
    if not pairs:
        return plain
    quick = deepcopy(plain)
    for convolution, norm in pairs:
        before, after = quick.get_submodule(convolution), quick.get_submodule(norm)
        assert isinstance(before, nn.Conv2d)
        assert isinstance(after, nn.BatchNorm2d)
        replace_module(quick, convolution, fuse_conv_bn_eval(before, after))
        replace_module(quick, norm, nn.Identity())
    expected, found = plain(images), quick(images)
    same = (found - expected).abs().max() <= TOLERANCE * expected.abs().max()  # false with NaN
    return quick if same else plain


def folded_for(network: nn.Module, transform: Transform, shape: tuple[int, int, int]) -> nn.Module:
    """``folded``, tried on two made-up images [height, width, channels]."""
    height, width, channels = shape
    sample = torch.linspace(0, 255, 2 * height * width * channels).to(torch.uint8)
    return folded(network, transform(sample.reshape(2, height, width, channels)))


def _pairs(network: nn.Module, images: Tensor) -> list[tuple[str, str]]:
    """The names of convolutions and of the batch norms that take their outputs."""
    made: dict[int, tuple[str, Tensor]] = {}  # by identity of the output; kept alive, so that no identity is used twice
    pairs: list[tuple[str, str]] = []

    def note_output(name: str, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        made[id(output)] = name, output

    def note_input(name: str, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if id(inputs[0]) in made:
            pairs.append((made[id(inputs[0])][0], name))

    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(partial(note_output, name)))
        elif isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
            hooks.append(module.register_forward_pre_hook(partial(note_input, name)))
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
    names = [name for pair in pairs for name in pair]
    return pairs if len(set(names)) == len(names) else []


def replace_module(network: nn.Module, name: str, module: nn.Module) -> None:
    """Put another module in the place of the one of that name."""
    parent, _, child = name.rpartition(".")
    setattr(network.get_submodule(parent), child, module)
