"""A bound on the gradient as a whole: g ← g · min(1, c / ‖g‖), ‖g‖ over all parameters together."""

import torch
from torch import Tensor


def clip(gradients: list[Tensor], largest: float) -> None:
    """Shorten gradients in place, on their device, so that together they are not longer than ``largest``."""
    if gradients:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(largest / norm, max=1.0))
