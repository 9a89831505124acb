"""The base of all optimisers: parameter groups, gradient clipping, and an EMA of the weights.

PyTorch's own optimisers are not used: they import its compiler, which takes seconds at every start.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from tailcloud.optimizers.ema import WeightAverage

FUSED_DEVICES = {"cpu", "cuda"}
GRAPH_DEVICES = {"cuda"}  # where a captured graph has to see the learning rate change

Layers = Sequence[Sequence[str]]


class UpdateSettings(Protocol):
    """The settings of a stage that concern its updates."""

    @property
    def lr(self) -> float:
        """The initial learning rate."""

    @property
    def lr_factors(self) -> Mapping[str, float]:
        """Factors of the learning rate, by part of the model."""

    @property
    def layer_decay(self) -> float:
        """Factor of the learning rate for each layer below the head."""

    @property
    def momentum(self) -> float:
        """The momentum, for optimisers that have one."""

    @property
    def weight_decay(self) -> float:
        """The weight decay."""

    @property
    def decay_norms(self) -> bool:
        """Whether parameters of one dimension or none, which are norms and biases, have weight decay."""

    @property
    def clip(self) -> float:
        """The largest norm of all gradients together; 0 disables clipping."""

    @property
    def ema(self) -> float:
        """The EMA decay of the weights; 0 disables the average."""


@dataclass
class ParameterGroup:
    """Parameters with the same learning rate and weight decay."""

    names: list[str]
    factor: float
    decay: float
    rate: float | Tensor


class Optimizer(ABC):
    """The base class of optimisers.

    Everything that updates depend on is in a dictionary of tensors (``state``). Learning rates are tensors on a CUDA
    device, so that a captured graph sees them change. A parameter without a gradient is not updated.

    Args:
        settings: those of the stage.
        parameters: what is trained, by name.
        device: where the parameters are.
        layers: the layers below the head, each as the names of its parts, from the input to the output.
    """

    buffer_names: ClassVar[tuple[str, ...]]  # one tensor for each parameter, initially zero
    counts: ClassVar[bool] = False  # whether an update depends on the number of updates

    def __init__(
        self,
        settings: UpdateSettings,
        parameters: Mapping[str, nn.Parameter],
        device: torch.device,
        layers: Layers = (),
    ) -> None:
        self.parameters, self.device, self.clip = dict(parameters), device, settings.clip
        self.buffers = {
            kind: {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
            for kind in self.buffer_names
        }
        self.count = torch.zeros((), device=device)  # of updates
        self.average = WeightAverage(self.parameters, settings.ema) if settings.ema else None
        groups: dict[tuple[float, float], list[str]] = {}
        for name, parameter in parameters.items():
            factor = factor_of(name, settings.lr_factors) * settings.layer_decay ** depth_of(name, layers)
            decay = settings.weight_decay if settings.decay_norms or parameter.ndim > 1 else 0.0
            groups.setdefault((factor, decay), []).append(name)
        self.rates = torch.zeros(len(groups), device=device)  # of the groups, where graphs read them
        self.groups = [
            ParameterGroup(names, factor, decay, self.rates[number] if device.type in GRAPH_DEVICES else 0.0)
            for number, ((factor, decay), names) in enumerate(groups.items())
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

    def rate_table(self, values: Sequence[float]) -> Tensor:
        """The rates [steps, groups] of steps with these learning rates, for ``set_rate_from``."""
        rows = [[group.factor * value for group in self.groups] for value in values]
        return torch.tensor(rows, dtype=self.rates.dtype)

    def set_rate_from(self, table: Tensor, step: Tensor) -> None:
        """Set the learning rate to that of a step [1] of a table, without a host value: a graph can do this."""
        torch.index_select(table, 0, step, out=self.rates.view(1, -1))

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
            if updated:
                update = self.update_fused if self.device.type in FUSED_DEVICES else self.update_unfused
                update(updated, group.rate, group.decay)
        if self.average:
            self.average.update(self.count)

    def update_fused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """Update these parameters with PyTorch's fused kernel; without one of its own, as on any other device."""
        self.update_unfused(names, rate, decay)

    @abstractmethod
    def update_unfused(self, names: list[str], rate: float | Tensor, decay: float) -> None:
        """Update these parameters, at least one, which all have gradients."""

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


def depth_of(name: str, layers: Layers) -> int:
    """How many layers below the head a parameter is: 1 in the last layer, 2 in the one before, 0 in none of them."""
    for depth, parts in enumerate(reversed(layers), start=1):
        if any(f"{name}.".startswith(f"{part}.") for part in parts):
            return depth
    return 0


def clip(gradients: list[Tensor], largest: float) -> None:
    """Scale gradients in place, on their device, so that their joint norm is at most ``largest``."""
    if gradients:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(largest / norm, max=1.0))
