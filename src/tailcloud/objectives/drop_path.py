"""Drop path, also called stochastic depth (Huang et al., ECCV 2016): training skips residual branches at random.

x + f(x) becomes x + f(x)·b / (1 − p) with b = 0 at the rate p, for each image and block. The rate grows linearly with
the depth: p_l = p_L · l / L in block l of L. Evaluation and export have no part in it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head
from tailcloud.objectives.base import Network, Objective


def drop_rates(blocks: Sequence[nn.Module], largest: float) -> list[float]:
    """The rate of each residual block, ``largest`` in the last one; 0 in blocks without a trained parameter."""
    return [
        largest * number / len(blocks) if any(parameter.requires_grad for parameter in block.parameters()) else 0.0
        for number, block in enumerate(blocks, start=1)
    ]


class DropPath(Objective):
    """Another objective, on a network that drops residual branches at these rates."""

    rates: Tensor

    def __init__(self, plain: Objective, rates: Sequence[float]) -> None:
        super().__init__(plain.loss)
        self.plain = plain
        self.register_buffer("rates", torch.tensor(rates))

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """The random numbers of the other objective, and one per image and block; ``views`` and ``second`` have own."""
        streams = 1 + len(batch.views) + (batch.second is not None)
        shape, device = (batch.rows, len(self.rates)), batch.target.device
        noise = self.plain.draw(batch, generator)
        return noise, [torch.rand(shape, generator=generator, device=device) for _ in range(streams)]

    def precompute(self, batch: Batch) -> Batch:
        """The batch as the other objective wants it."""
        return self.plain.precompute(batch)

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        own, uniform = noise
        weights = (torch.cat(uniform) >= self.rates) / (1 - self.rates)
        loss: Tensor = self.plain(DropPathNetwork(network, weights), batch, own)
        return loss


class DropPathNetwork:
    """A classifier whose residual branches have weights [images, blocks]."""

    def __init__(self, network: Network, weights: Tensor) -> None:
        assert isinstance(network, Classifier)  # fused kernels are for other backbones
        self.network, self.weights = network, weights

    @property
    def head(self) -> Head:
        """Features to outputs."""
        return self.network.head

    def features(self, images: Tensor) -> Tensor:
        """Features of normalised images."""
        features: Tensor = self.network.backbone(images, self.weights)
        return features

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs."""
        outputs: Tensor = self.head(self.features(images))
        return outputs
