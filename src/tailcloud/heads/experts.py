"""One head for each expert of a backbone (RIDE; Wang et al., ICLR 2021)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tailcloud.heads.base import Head


class ExpertHeads(Head):
    """The mean of the outputs of heads that each see the features of their own expert.

    Args:
        kind: what makes a head from two sizes.
        experts: the number of experts.
        features: the length of the features of all experts together.
        classes: the number of classes.
    """

    def __init__(self, kind: Callable[[int, int], Head], experts: int, features: int, classes: int) -> None:
        super().__init__()
        heads = [kind(features // experts, classes) for _ in range(experts)]
        self.cosine = heads[0].cosine
        self.experts = nn.ModuleList(heads)

    def forward(self, features: Tensor) -> Tensor:
        """Mean outputs [batch, classes] of features [batch, features]."""
        return torch.stack(self.each(features)).mean(dim=0)

    def each(self, features: Tensor) -> list[Tensor]:
        """The outputs [batch, classes] of every expert."""
        own = features.chunk(len(self.experts), dim=1)
        return [head(part) for head, part in zip(self.experts, own, strict=True)]
