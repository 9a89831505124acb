"""An EfficientNet-Lite whose layers are computed by kernels, against the plain one."""

import pytest
import torch
from torch import nn

from helpers.kernel_device import DEVICE, needs_somewhere
from tailcloud.backbones.efficientnet_lite import SameConv2d
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.kernels import FusedLayers, has_fused_layers

pytestmark = needs_somewhere

ROUNDING = 2**-8  # of bfloat16


def network():
    model = build_classifier(Architecture("efficientnet_lite0", "linear", 1.0, 3, 4), 0).eval()
    return model.to(DEVICE, memory_format=torch.channels_last)


def relative(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize(("convolutions", "norms"), [(True, True), (False, True), (True, False)])
def test_a_network_with_kernels_is_the_network_without(convolutions, norms):
    model = network()
    assert has_fused_layers(model)
    images = torch.randn(1, 3, 16, 16, device=DEVICE)  # small: the interpreter is slow

    def outputs():
        with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16):
            return model(images).float()

    plain = outputs()
    layers = FusedLayers(model, convolutions=convolutions, norms=norms)
    assert len(layers.convolutions) == 48 * convolutions  # all but the stem
    assert len(layers.norms) == 49 * norms
    assert layers.kinds == " and ".join(["convolutions"] * convolutions + ["norms"] * norms)
    assert relative(outputs(), plain) < 16 * ROUNDING  # rounded at other places, through 49 layers
    with torch.no_grad():
        exact = model(images)  # float32 is PyTorch's
    layers.remove()
    assert torch.equal(outputs(), plain)
    with torch.no_grad():
        assert torch.equal(model(images), exact)


def test_kernels_compute_every_norm():
    """In bfloat16 PyTorch's batch norm is not called; in float32 it is."""
    model = network()
    called = []
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | SameConv2d):
            module.register_forward_pre_hook(lambda module, _: called.append(type(module)))
    FusedLayers(model, convolutions=False)
    images = torch.randn(1, 3, 16, 16, device=DEVICE)
    with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16):
        model(images)
    assert set(called) == {SameConv2d}
    with torch.no_grad():
        model(images)
    assert set(called) == {SameConv2d, nn.BatchNorm2d}
