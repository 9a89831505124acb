import pytest
import torch
from torch import nn

from tailcloud.backbones import create_backbone
from tailcloud.classifier import meta_backbone


@pytest.mark.parametrize(
    ("name", "features", "parameters"),
    [
        ("resnet18", 512, 11_176_512),
        ("resnet34", 512, 21_284_672),
        ("resnet50", 2048, 23_508_032),
        ("resnet101", 2048, 44_549_160 - 2_049_000),
        ("resnet152", 2048, 60_192_808 - 2_049_000),
        ("resnext50_32x4d", 2048, 25_028_904 - 2_049_000),
        ("resnet152-fresh", 2048, 60_192_808 - 2_049_000),
    ],
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


def published_names(blocks):
    """Every key of a published file of bottlenecks, written out; the classifier aside."""
    parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{part}" for part in parts)]
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            start = f"layer{stage}.{block}"
            for number in (1, 2, 3):
                names += [f"{start}.conv{number}.weight", *(f"{start}.bn{number}.{part}" for part in parts)]
            if block == 0:
                names += [f"{start}.downsample.0.weight", *(f"{start}.downsample.1.{part}" for part in parts)]
    return names


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("resnet50", (3, 4, 6, 3)),
        ("resnet101", (3, 4, 23, 3)),
        ("resnet152", (3, 8, 36, 3)),
        ("resnext50_32x4d", (3, 4, 6, 3)),
    ],
)
def test_every_name_of_a_published_file_is_here_and_no_other(name, blocks):
    assert list(meta_backbone(name).state_dict()) == published_names(blocks)


def test_the_groups_of_a_resnext_are_as_published():
    backbone = meta_backbone("resnext50_32x4d")
    shapes = [tuple(getattr(backbone, f"layer{stage}")[0].conv2.weight.shape) for stage in (1, 2, 3, 4)]
    assert shapes == [(128, 4, 3, 3), (256, 8, 3, 3), (512, 16, 3, 3), (1024, 32, 3, 3)]


@pytest.mark.parametrize("name", ["resnet50", "resnext50_32x4d"])
def test_bottlenecks_start_as_published(name):
    """Kaiming's deviation over outgoing connections, and a last batch norm that is not zeroed."""
    torch.manual_seed(0)
    block = create_backbone(name).layer4[0]
    weight = block.conv2.weight
    fan_out = weight.shape[0] * 9
    assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)
    assert (block.bn3.weight == 1).all()
    assert (block.bn3.bias == 0).all()


@pytest.mark.parametrize("name", ["resnet101", "resnext50_32x4d", "resnet50-fresh", "resnet18-fresh"])
def test_deep_backbones_compute_on_any_size(name):
    backbone = create_backbone(name, width=0.0625).eval()
    for side in (33, 64):
        assert backbone(torch.zeros(2, 3, side, side)).shape == (2, backbone.features)
