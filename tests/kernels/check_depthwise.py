"""Depthwise and 1×1 convolutions of EfficientNet-Lite against the plain modules: values and gradients."""

import pytest
import torch

from helpers.kernel_device import DEVICE, needs_somewhere
from tailcloud.backbones.efficientnet_lite import SameConv2d
from tailcloud.kernels import fits
from tailcloud.kernels.depthwise import convolve

pytestmark = needs_somewhere

ROUNDING = 2**-8  # of bfloat16


def relative(found, expected):
    return float((found.detach().double() - expected.detach().double()).abs().max() / expected.detach().abs().max())


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride", "height", "width"),
    [
        (32, 32, 3, 1, 5, 7),
        (24, 24, 3, 2, 6, 5),  # an odd and an even side: the odd pixel of padding
        (272, 272, 3, 2, 3, 6),  # more channels than a program has
        (40, 40, 5, 1, 3, 3),  # smaller than the kernel
        (3, 3, 3, 2, 6, 5),
        (1, 1, 5, 2, 2, 70),  # more columns than a program has
        (24, 40, 1, 1, 5, 6),
    ],
)
def test_a_convolution_is_that_of_float64(inputs, outputs, kernel, stride, height, width):
    torch.manual_seed(0)
    groups = 1 if kernel == 1 else inputs
    conv = SameConv2d(inputs, outputs, kernel, stride, groups).to(DEVICE)
    assert fits(conv)
    maps = torch.randn(2, inputs, height, width, device=DEVICE).to(memory_format=torch.channels_last)
    maps = maps.bfloat16().requires_grad_()
    weight = conv.weight.bfloat16() if kernel == 1 else conv.weight  # a product takes one type
    result = convolve(maps, weight, stride)
    gradient = torch.randn_like(result)
    result.backward(gradient)
    oracle, exact = SameConv2d(inputs, outputs, kernel, stride, groups).double(), maps.detach().cpu().double()
    oracle.load_state_dict({"weight": weight.detach().cpu().double()})
    expected = oracle(exact.requires_grad_())
    expected.backward(gradient.cpu().double())
    assert result.shape == expected.shape
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert relative(result.cpu(), expected) < ROUNDING
    assert relative(maps.grad.cpu(), exact.grad) < ROUNDING
    assert relative(conv.weight.grad.cpu(), oracle.weight.grad) < (ROUNDING if kernel == 1 else 1e-5)


def test_the_gradients_are_the_same_bits_each_time():
    torch.manual_seed(0)
    maps, weight = torch.randn(4, 16, 6, 6, device=DEVICE).bfloat16(), torch.randn(16, 1, 3, 3, device=DEVICE)
    found = []
    for _ in range(2):
        inputs = [maps.clone().requires_grad_(), weight.clone().requires_grad_()]
        convolve(*inputs, 1).square().sum().backward()
        found.append([each.grad for each in inputs])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
