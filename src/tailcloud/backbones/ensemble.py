"""The backbone of an average of trained runs: whole networks side by side, each with a head of its own."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone

MOST_NETWORKS = 99  # a name comes from a file that nobody may have checked
ENSEMBLE_NAME = re.compile(r"(?P<member>.+)-(?P<networks>[2-9]|[1-9]\d)-networks")


class Ensemble(Backbone):
    """``forward`` concatenates the features of all networks: [batch, ``features``].

    ``experts`` counts one for each network, or as many as each of them has, so that there is a head for each.
    """

    def __init__(self, networks: Sequence[Backbone]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.features = sum(network.features for network in networks)
        self.experts = sum(getattr(network, "experts", 1) for network in networks)  # a plugin's may be any module

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        return torch.cat([network(images) for network in self.networks], dim=1)


def ensemble_of(name: str, networks: int) -> str:
    """The name of so many networks of a kind, side by side.

    >>> ensemble_of("resnet32", 3)
    'resnet32-3-networks'
    """
    return f"{name}-{networks}-networks"


def ensemble_parts(name: str) -> tuple[str, int]:
    """Which networks an ensemble has, and how many; any other name is one network. There are no ensembles of ensembles.

    >>> ensemble_parts("resnet32-3-networks")
    ('resnet32', 3)
    """
    match = ENSEMBLE_NAME.fullmatch(name)
    if match is None or ENSEMBLE_NAME.fullmatch(match["member"]):
        return name, 1
    return match["member"], int(match["networks"])
