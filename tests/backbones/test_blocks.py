"""A basic block against a naive composition of convolutions and batch norms, and how weights start."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tailcloud.backbones import create_backbone
from tailcloud.backbones.cifar_resnet import BasicBlock


def shaken_block(inputs, outputs, stride):
    """A block in float64 whose batch norms do something."""
    torch.manual_seed(0)
    block = BasicBlock(inputs, outputs, stride).double()
    for norm in (block.bn1, block.bn2):
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.normal_(norm.bias)
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    return block


def normalised(x, norm, training):
    """Batch norm by its formula, with the statistics of the batch or the running ones."""
    mean, var = norm.running_mean, norm.running_var
    if training:
        mean, var = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3), unbiased=False)
    scale = norm.weight / (var + 1e-5).sqrt()
    return (x - mean[:, None, None]) * scale[:, None, None] + norm.bias[:, None, None]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(4, 4, 1), (4, 8, 2), (3, 6, 2)])
def test_a_block_adds_its_shortcut_before_the_last_relu(inputs, outputs, stride, training):
    block = shaken_block(inputs, outputs, stride).train(training)
    x = torch.randn(5, inputs, 7, 6, dtype=torch.float64)
    shortcut = torch.zeros(5, outputs, math.ceil(7 / stride), math.ceil(6 / stride), dtype=torch.float64)
    before = (outputs - inputs) // 2
    shortcut[:, before : before + inputs] = x[:, :, ::stride, ::stride]
    with torch.no_grad():
        y = F.conv2d(x, block.conv1.weight, stride=stride, padding=1)
        y = normalised(y, block.bn1, training).clamp(min=0)
        y = normalised(F.conv2d(y, block.conv2.weight, padding=1), block.bn2, training)
        assert (y + shortcut < 0).any()
        torch.testing.assert_close(block(x), (y + shortcut).clamp(min=0))


def test_convolutions_start_normal_with_the_spread_that_kaiming_gives():
    torch.manual_seed(0)
    for name, module in create_backbone("resnet32").named_modules():
        if isinstance(module, nn.Conv2d):
            weight = module.weight.detach()
            fan_in = weight[0].numel()
            error = 4 / math.sqrt(2 * weight.numel())  # four standard errors of a standard deviation
            assert weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=error), name
            assert weight.abs().max() > 2.2 * weight.std(), name  # a uniform one ends at 1.73


def test_batch_norms_start_as_the_identity():
    for module in create_backbone("resnet8").modules():
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_gradients_lie_in_memory_as_the_maps_do():
    """A gradient in another layout would make every kernel behind it slow."""
    backbone = create_backbone("resnet8").to(memory_format=torch.channels_last)
    layouts = []

    def watch(_module, _inputs, output):
        output.register_hook(lambda gradient: layouts.append(gradient.is_contiguous(memory_format=torch.channels_last)))

    for module in backbone.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | BasicBlock):
            module.register_forward_hook(watch)
    images = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    backbone(images).square().sum().backward()
    assert layouts == [True] * 17
