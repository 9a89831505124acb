"""Sharpness-aware minimisation, SAM (Foret et al., ICLR 2021): an update takes the gradient of the worst point nearby.

ŵ = w + ρ · g / ‖g‖   with g = ∂L/∂w at w, of all trained parameters together;   w is updated with ∂L/∂w at ŵ

Weight decay, momentum and clipping belong to the update: g and ρ do not include them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

MIN_NORM = 1e-12  # a gradient of zero leaves the weights where they are


class SharpnessAware:
    """Moves trained parameters to the worst point within ``radius`` (ρ), and back. Device code with static memory.

    ``buffers`` are restored too: batch norm updates its running statistics once per step, with those of the weights
    that are evaluated, and not with those of ŵ.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], buffers: Iterable[Tensor], radius: float) -> None:
        self.parameters, self.radius = parameters, radius
        self.saved = SavedTensors([*parameters.values(), *buffers])

    @contextmanager
    def perturbed(self) -> Iterator[None]:
        """Within this context the parameters are ŵ, which follows from their gradients; afterwards w, bit for bit."""
        self.saved.save()
        self.ascend()
        try:
            yield
        finally:
            self.saved.restore()

    @torch.no_grad()
    def ascend(self) -> None:
        """Add ρ · g / ‖g‖ to the parameters that have a gradient."""
        weights: list[Tensor] = [weight for weight in self.parameters.values() if weight.grad is not None]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        if gradients:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            steps = torch._foreach_mul(gradients, self.radius / (norm + MIN_NORM))
            torch._foreach_add_(weights, list(steps))


class SavedTensors:
    """Tensors, and copies of them in memory of their own, so that a captured graph finds both at fixed addresses."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        groups: dict[torch.dtype, list[Tensor]] = {}  # one kernel copies many tensors of the same type
        for tensor in tensors:
            groups.setdefault(tensor.dtype, []).append(tensor.detach())
        self.groups = [(group, [tensor.clone() for tensor in group]) for group in groups.values()]

    def save(self) -> None:
        """Copy the values of now."""
        for tensors, copies in self.groups:
            torch._foreach_copy_(copies, tensors)

    def restore(self) -> None:
        """Set the tensors to the values that were saved."""
        for tensors, copies in self.groups:
            torch._foreach_copy_(tensors, copies)
