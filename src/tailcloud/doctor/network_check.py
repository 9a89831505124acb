"""A pretrained network on the device in float32, beside the same network on the CPU in float64."""

import torch
from torch import Tensor, nn

from tailcloud.backbones import create_backbone
from tailcloud.doctor.check import Check
from tailcloud.doctor.training_check import REPORT
from tailcloud.errors import TailcloudError
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import PRETRAINED, resolve_weights

NETWORK = "efficientnet_lite0"  # whose weights are installed with tailcloud
IMAGES, PIXELS = 4, 96
TOLERANCES = {"cpu": 1e-4}  # relative to the largest feature
OTHER_DEVICES = 0.02  # which may multiply in TF32
NAME = "pretrained network"


def check_network(device: torch.device) -> Check:
    """Compare the features of a few random images; about 1e-6 apart on a CPU."""
    backbone = create_backbone(NETWORK, channels=3)
    try:
        load_pretrained(backbone, resolve_weights(NETWORK, PRETRAINED), channels=3)
    except TailcloudError:  # the check of weights says why
        return Check(NAME, "left out", f"the weights of {NETWORK} are missing or damaged")
    images = torch.randn(IMAGES, 3, PIXELS, PIXELS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = features(backbone, images.float(), device).double()
    exact = features(backbone.double(), images, torch.device("cpu"))
    apart = float((found - exact).abs().max() / exact.abs().max())
    allowed = TOLERANCES.get(device.type, OTHER_DEVICES)
    text = f"features in float32 differ by up to {apart:.0e} (allowed {allowed:.0e}) from those in float64"
    if apart <= allowed:  # not so if one is NaN
        return Check(NAME, "ok", text)
    way_out = "use --device cpu" if device.type != "cpu" else "reinstall PyTorch"
    return Check(NAME, "failed", f"{text}: predictions of this machine are wrong; {way_out}, and {REPORT}")


@torch.inference_mode()
def features(network: nn.Module, images: Tensor, device: torch.device) -> Tensor:
    """The features of images, on the CPU."""
    computed: Tensor = network.eval().to(device)(images.to(device))
    return computed.cpu()
