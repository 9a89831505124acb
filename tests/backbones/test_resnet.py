import pytest
import torch
from torch import nn

from tailcloud.backbones import create_backbone


@pytest.mark.parametrize(
    ("name", "features", "parameters"),
    [("resnet18", 512, 11_176_512), ("resnet34", 512, 21_284_672), ("resnet50", 2048, 23_508_032)],
)
def test_sizes_are_those_of_the_published_networks(name, features, parameters):
    """Without the last layer: 11,689,512 − 513,000 for ResNet-18, and so on."""
    with torch.device("meta"):
        backbone = create_backbone(name)
    assert backbone.features == features
    assert sum(parameter.numel() for parameter in backbone.parameters()) == parameters


def test_names_are_those_of_the_published_weights():
    names = set(create_backbone("resnet18", width=0.1).state_dict())
    assert {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer1.1.bn2.bias"} < names
    assert {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var", "layer4.1.conv2.weight"} < names
    assert "layer1.0.downsample.0.weight" not in names
    assert "layer1.0.downsample.0.weight" in create_backbone("resnet50", width=0.1).state_dict()
    assert "layer1.0.conv3.weight" in create_backbone("resnet50", width=0.1).state_dict()


def by_hand(backbone, images):
    """ResNet-18, one layer after the other."""
    x = torch.relu(backbone.bn1(backbone.conv1(images)))
    if not backbone.small:
        x = nn.MaxPool2d(3, 2, 1)(x)
    for number in (1, 2, 3, 4):
        for block in getattr(backbone, f"layer{number}"):
            inner = block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(x)))))
            x = torch.relu(inner + (block.downsample(x) if block.downsample else x))
    return x.mean(dim=(2, 3))


@pytest.mark.parametrize("name", ["resnet18", "resnet18-small"])
def test_a_forward_pass_is_the_papers(name):
    torch.manual_seed(0)
    backbone = create_backbone(name, channels=1, width=0.125).double().eval()
    images = torch.randn(2, 1, 40, 40, dtype=torch.float64)
    torch.testing.assert_close(backbone(images), by_hand(backbone, images))


@pytest.mark.parametrize(("name", "side"), [("resnet18", 24), ("resnet18-small", 96)])
def test_the_stem_for_small_images_keeps_every_pixel(name, side):
    backbone = create_backbone(name, width=0.05).eval()
    sizes = []
    backbone.layer1.register_forward_hook(lambda *args: sizes.append(args[2].shape[-1]))
    backbone(torch.zeros(1, 3, 96, 96))
    assert sizes == [side]
