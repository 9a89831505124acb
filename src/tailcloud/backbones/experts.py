"""The backbone of RIDE and BalPoE (Wang et al., ICLR 2021; Aimar et al., CVPR 2023): experts on a shared trunk.

Stem and first stage are shared; each expert has a second and a third stage of its own, so that three experts on a
ResNet-32 have 1.34 M parameters, without heads.
"""

import re
from collections import OrderedDict

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.backbones.base import global_average_pool
from tailcloud.backbones.cifar_resnet import CifarResNet, make_stage

EXPERT_NAME = re.compile(r"(?P<plain>.+)-(?P<experts>[2-9]\d*|1\d+)-experts")


class ExpertResNet(CifarResNet):
    """For small images. ``forward`` concatenates the features of all experts: [batch, ``features``].

    ``branches`` are the experts. All of them see every image.
    """

    def __init__(self, blocks: int, experts: int, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__(blocks, channels=channels, width=width)
        first = OrderedDict[str, nn.Module](layer2=self.layer2, layer3=self.layer3)
        del self.layer2, self.layer3
        others = [self.more_stages(blocks) for _ in range(experts - 1)]
        self.branches = nn.ModuleList(nn.Sequential(stages) for stages in (first, *others))
        self.experts = experts
        self.features *= experts

    def more_stages(self, blocks: int) -> OrderedDict[str, nn.Module]:
        """The stages of another expert, with fresh weights."""
        first, second, third = self.widths
        stages = OrderedDict[str, nn.Module](
            layer2=make_stage(blocks, first, second, stride=2), layer3=make_stage(blocks, second, third, stride=2)
        )
        for stage in stages.values():
            for module in stage.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight)
        return stages

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        shared = self.layer1(F.relu(self.bn1(self.conv1(images)), inplace=True))
        return torch.cat([global_average_pool(branch(shared)) for branch in self.branches], dim=1)

    def layers(self) -> list[list[str]]:
        """The stem, the shared stage, and the stages of all experts side by side."""
        numbers = range(self.experts)
        own = [[f"branches.{number}.{stage}" for number in numbers] for stage in ("layer2", "layer3")]
        return [["conv1", "bn1"], ["layer1"], *own]


def with_experts(name: str, experts: int) -> str:
    """The name of a backbone with that many experts; one expert is the backbone itself.

    >>> with_experts("resnet32", 3)
    'resnet32-3-experts'
    """
    return f"{without_experts(name)}-{experts}-experts" if experts > 1 else name


def without_experts(name: str) -> str:
    """The name of the backbone whose stages the experts repeat."""
    match = EXPERT_NAME.fullmatch(name)
    return match["plain"] if match else name


def experts_of(name: str) -> int:
    """The number of experts that a name says."""
    match = EXPERT_NAME.fullmatch(name)
    return int(match["experts"]) if match else 1
