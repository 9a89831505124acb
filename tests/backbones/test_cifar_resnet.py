"""The CIFAR ResNets: published sizes, option A shortcuts, any image."""

import pytest
import torch

from tailcloud.backbones import BACKBONES, create_backbone
from tailcloud.backbones.cifar_resnet import BasicBlock
from tailcloud.classifier import Architecture, build_classifier, cost
from tailcloud.errors import UsageError


@pytest.mark.parametrize(("head", "parameters"), [("linear", 464_154), ("cosine", 464_144)])
def test_resnet32_has_its_published_size(head, parameters):
    price = cost(Architecture("resnet32", head, 1.0, 3, 10), 32, 32)
    assert price.parameters == parameters
    assert price.flops == pytest.approx(0.412e9 / 3, rel=0.01)  # forward is a third of a training step


def test_every_depth_exists():
    plain = {"resnet8", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110"}
    assert set(BACKBONES) > plain | {f"{name}-two-branch" for name in plain}
    convolutions = [m for m in create_backbone("resnet20").modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 19  # and the head makes twenty


@pytest.mark.parametrize(
    ("size", "channels", "width"), [(8, 1, 1.0), (32, 3, 0.5), (17, 4, 0.3), (1, 3, 1.0), (64, 3, 2.0)]
)
def test_any_image_size_channels_and_width(size, channels, width):
    backbone = create_backbone("resnet8", channels=channels, width=width)
    features = backbone(torch.randn(2, channels, size, size))
    assert features.shape == (2, backbone.features)
    assert (features >= 0).all()
    assert backbone.features == round(64 * width)


def test_option_a_takes_every_second_pixel_and_pads_both_sides():
    x = torch.arange(2 * 16 * 4 * 4, dtype=torch.float32).reshape(2, 16, 4, 4)
    y = BasicBlock(16, 32, stride=2).shortcut(x)
    assert y.shape == (2, 32, 2, 2)
    assert (y[:, :8] == 0).all()
    assert (y[:, 24:] == 0).all()
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])


def test_weights_follow_from_the_seed_alone():
    architecture = Architecture("resnet8", "cosine", 1.0, 3, 10)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = build_classifier(architecture, 0).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    second, other = build_classifier(architecture, 0).state_dict(), build_classifier(architecture, 1).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_unknown_names_and_widths_are_refused():
    with pytest.raises(UsageError, match='did you mean "resnet110"'):
        create_backbone("resnet111")
    with pytest.raises(UsageError, match="width"):
        create_backbone("resnet8", width=0)
