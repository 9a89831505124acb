"""Gradient clipping by the norm of all gradients together: g ← g · min(1, c / ‖g‖)."""

import torch
from torch import Tensor


def clip(gradients: list[Tensor], largest: float) -> None:
    """Scale gradients in place, on their device, so that their joint norm is at most ``largest``."""
    if gradients:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(largest / norm, max=1.0))
