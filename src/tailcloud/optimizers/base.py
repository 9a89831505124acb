"""The base of all optimisers: learning-rate groups, gradient clipping, and an EMA of the weights.

PyTorch's own optimisers are not used: they import its compiler, which takes seconds at every start.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from tailcloud.optimizers.ema import WeightAverage

FUSED_DEVICES = {"cpu", "cuda"}


class UpdateSettings(Protocol):
    """The settings of a stage that concern its updates."""

    @property
    def lr(self) -> float:
        """The initial learning rate."""

    @property
    def lr_factors(self) -> Mapping[str, float]:
        """Factors of the learning rate, by part of the model."""

    @property
    def momentum(self) -> float:
        """The momentum, for optimisers that have one."""

    @property
    def weight_decay(self) -> float:
        """The weight decay."""

    @property
    def clip(self) -> float:
        """The largest norm of all gradients together; 0 disables clipping."""

    @property
    def ema(self) -> float:
        """The EMA decay of the weights; 0 disables the average."""


@dataclass
class ParameterGroup:
    """Parameters with the same learning rate."""

    names: list[str]
    factor: float
    rate: float | Tensor


class Optimizer(ABC):
    """The base class of optimisers. Weight decay applies to all parameters, batch norm and head included.

    Everything that updates depend on is in a dictionary of tensors (``state``). The learning rate is a tensor on a CUDA
    device, so that a captured graph sees it change. A parameter without a gradient is not updated.
    """

    buffer_names: ClassVar[tuple[str, ...]]  # one tensor for each parameter, initially zero
    counts: ClassVar[bool] = False  # whether an update depends on the number of updates

    def __init__(self, settings: UpdateSettings, parameters: Mapping[str, nn.Parameter], device: torch.device) -> None:
        self.parameters, self.device = dict(parameters), device
        self.weight_decay, self.clip = settings.weight_decay, settings.clip
        self.buffers = {
            kind: {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
            for kind in self.buffer_names
        }
        self.count = torch.zeros((), device=device)  # of updates
        self.average = WeightAverage(self.parameters, settings.ema) if settings.ema else None
        groups: dict[float, list[str]] = {}
        for name in parameters:
            groups.setdefault(factor_of(name, settings.lr_factors), []).append(name)
        self.groups = [
            ParameterGroup(
                names, factor, torch.tensor(factor * settings.lr, device=device) if device.type == "cuda" else 0.0
            )
            for factor, names in groups.items()
        ]
        self.set_rate(settings.lr)

    @property
    def state(self) -> dict[str, Tensor]:
        """Everything besides weights and gradients that updates depend on, by name; not copies."""
        kinds = {**self.buffers, **({"average": self.average.weights} if self.average else {})}
        tensors = {f"{kind}.{name}": value for kind, values in kinds.items() for name, value in values.items()}
        return {**tensors, **({"count.updates": self.count} if self.counts or self.average else {})}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved ``state``."""
        for name, value in self.state.items():
            value.copy_(tensors[name])

    def set_rate(self, value: float) -> None:
        """Set the learning rate; each group multiplies it by its factor."""
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(group.factor * value)
            else:
                group.rate = group.factor * value

    def zero_grad(self) -> None:
        """Remove all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update of all parameters with a gradient, without a device synchronisation."""
        if self.clip:
            clip([p.grad for p in self.parameters.values() if p.grad is not None], self.clip)
        if self.counts or self.average:
            self.count += 1
        for group in self.groups:
            updated = [name for name in group.names if self.parameters[name].grad is not None]
            if self.device.type in FUSED_DEVICES and updated:
                self.update_fused(updated, group.rate)
            else:
                self.update_unfused(updated, group.rate)
        if self.average:
            self.average.update(self.count)

    @abstractmethod
    def update_fused(self, names: list[str], rate: float | Tensor) -> None:
        """Update these parameters, which all have gradients, with PyTorch's fused kernel."""

    @abstractmethod
    def update_unfused(self, names: list[str], rate: float | Tensor) -> None:
        """The same without a fused kernel."""

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within this context the parameters are their EMA, if there is one."""
        if self.average is None:
            yield
            return
        self.average.swap()
        try:
            yield
        finally:
            self.average.swap()

    def use_average(self) -> None:
        """Replace the parameters by their EMA, if there is one."""
        if self.average:
            self.average.swap()

    def of(self, kind: str, names: list[str]) -> list[Tensor]:
        """The buffers of that kind for these parameters."""
        return [self.buffers[kind][name] for name in names]

    def weights_and_gradients(self, names: list[str]) -> tuple[list[Tensor], list[Tensor]]:
        """The weights and gradients of parameters that have gradients."""
        weights: list[Tensor] = [self.parameters[name] for name in names]
        return weights, [weight.grad for weight in weights if weight.grad is not None]


def factor_of(name: str, factors: Mapping[str, float]) -> float:
    """The learning-rate factor of a parameter: that of the longest matching part, else 1."""
    parts = [part for part in factors if f"{name}.".startswith(f"{part}.")]
    return factors[max(parts, key=len)] if parts else 1.0


def clip(gradients: list[Tensor], largest: float) -> None:
    """Scale gradients in place, on their device, so that their joint norm is at most ``largest``."""
    if gradients:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(largest / norm, max=1.0))
