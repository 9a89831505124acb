"""Normalisation: from stored pixels to the input of a network."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Transform = Callable[[Tensor], Tensor]  # of stored images [batch, H, W, C]


class Normalise:
    """uint8 images [batch, H, W, C] to floats [batch, C, H, W]: (pixel / 255 − mean) / std, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device | str = "cpu") -> None:
        self.mean, self.std = list(mean), list(std)
        std64 = torch.tensor(self.std, dtype=torch.float64)
        self.factor = (1 / (255 * std64)).to(device, torch.float32)
        self.offset = (-torch.tensor(self.mean, dtype=torch.float64) / std64).to(device, torch.float32)

    def __call__(self, images: Tensor) -> Tensor:
        """The permuted view is channels-last in memory, the fastest layout for convolutions."""
        return torch.addcmul(self.offset, images.float(), self.factor).permute(0, 3, 1, 2)
