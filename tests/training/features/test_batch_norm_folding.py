"""Batch norm folded into convolutions: the same features without it, or nothing is folded."""

import pytest
import torch
from torch import nn

from tailcloud.backbones import create_backbone
from tailcloud.training.features.batch_norm_folding import folded, images_at_once


def with_statistics(network, images):
    network.train()
    with torch.no_grad():
        network(images)
    return network.eval()


@pytest.mark.parametrize("name", ["resnet8", "efficientnet_lite0", "resnet18"])
def test_networks_have_the_same_features_without_their_batch_norm(name):
    torch.manual_seed(0)
    images = 2 * torch.randn(4, 3, 32, 32) + 1
    network = with_statistics(create_backbone(name), images)
    quick = folded(network, images[:2])
    assert not any(isinstance(module, nn.BatchNorm2d) for module in quick.modules())
    expected = network(images).detach()
    assert torch.allclose(quick(images), expected, atol=1e-4 * float(expected.abs().max()))
    assert any(isinstance(module, nn.BatchNorm2d) for module in network.modules())  # unchanged


class UsedTwice(nn.Module):
    """The output of the convolution is needed without batch norm too."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, images):
        maps = self.conv(images)
        return (maps + self.bn(maps)).mean(dim=(2, 3))


def test_a_network_that_would_change_is_left_alone():
    images = torch.randn(4, 3, 8, 8)
    network = with_statistics(UsedTwice(), images)
    assert torch.equal(folded(network, images)(images), network(images))


def test_a_network_without_batch_norm_is_copied():
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten())
    images = torch.randn(2, 3, 4, 4)
    assert torch.equal(folded(network, images)(images), network(images))


def test_a_network_with_nan_among_its_weights_is_copied():
    images = torch.randn(2, 3, 8, 8)
    network = with_statistics(create_backbone("resnet8"), images)
    network.conv1.weight.data[0] = torch.nan
    quick = folded(network, images)
    assert any(isinstance(module, nn.BatchNorm2d) for module in quick.modules())
    assert quick(images).isnan().any()


def test_larger_images_are_computed_fewer_at_a_time():
    sides = (8, 32, 96, 128, 160, 192, 224, 512)
    assert [images_at_once(side**2) for side in sides] == [256, 256, 28, 16, 10, 7, 5, 4]
