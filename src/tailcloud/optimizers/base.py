"""What every optimiser does around its own update: learning rates by part, a bound on gradients, an average.

PyTorch's own would do, but making one imports its compiler: seconds of every start, and most of that of a short run.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from tailcloud.optimizers.ema import Average
from tailcloud.optimizers.grad_clip import clip

IN_ONE_KERNEL = {"cpu", "cuda"}


class Pace(Protocol):
    """What a stage says about its updates."""

    @property
    def lr(self) -> float:
        """The learning rate at first."""

    @property
    def lr_factors(self) -> Mapping[str, float]:
        """What multiplies it, by the names of parts."""

    @property
    def momentum(self) -> float:
        """How much of the last update goes on, where an optimiser has that."""

    @property
    def weight_decay(self) -> float:
        """How much of each weight is taken off, per learning rate."""

    @property
    def clip(self) -> float:
        """The largest norm of the whole gradient; 0 is none."""

    @property
    def ema(self) -> float:
        """The decay of the average of weights; 0 is none."""


@dataclass
class Group:
    """Parameters that have one learning rate."""

    names: list[str]
    factor: float
    rate: float | Tensor


class Optimizer(ABC):
    """Weight decay on everything, batch norm and head included, as the published recipes have it.

    All that is remembered between two updates are named tensors (``state``). The learning rate is a tensor on a CUDA
    device, so that a captured step sees it change. A parameter without a gradient stays as it is.
    """

    memories: ClassVar[tuple[str, ...]]  # what is remembered of each parameter, zeros at first
    counts: ClassVar[bool] = False  # whether an update depends on how many there were

    def __init__(self, pace: Pace, parameters: Mapping[str, nn.Parameter], device: torch.device) -> None:
        self.parameters, self.device = dict(parameters), device
        self.weight_decay, self.clip = pace.weight_decay, pace.clip
        self.memory = {
            kind: {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
            for kind in self.memories
        }
        self.count = torch.zeros((), device=device)  # of updates
        self.average = Average(self.parameters, pace.ema) if pace.ema else None
        groups: dict[float, list[str]] = {}
        for name in parameters:
            groups.setdefault(factor_of(name, pace.lr_factors), []).append(name)
        self.groups = [
            Group(names, factor, torch.tensor(factor * pace.lr, device=device) if device.type == "cuda" else 0.0)
            for factor, names in groups.items()
        ]
        self.set_rate(pace.lr)

    @property
    def state(self) -> dict[str, Tensor]:
        """All that the next updates depend on beside weights and gradients, by name: the tensors themselves."""
        kinds = {**self.memory, **({"average": self.average.weights} if self.average else {})}
        tensors = {f"{kind}.{name}": value for kind, values in kinds.items() for name, value in values.items()}
        return {**tensors, **({"count.updates": self.count} if self.counts or self.average else {})}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on where a ``state`` was kept."""
        for name, value in self.state.items():
            value.copy_(tensors[name])

    def set_rate(self, value: float) -> None:
        """The learning rate of all parameters, each times its factor."""
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(group.factor * value)
            else:
                group.rate = group.factor * value

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update of everything that has a gradient. Nothing is read from the device."""
        if self.clip:
            clip([p.grad for p in self.parameters.values() if p.grad is not None], self.clip)
        if self.counts or self.average:
            self.count += 1
        for group in self.groups:
            moving = [name for name in group.names if self.parameters[name].grad is not None]
            if self.device.type in IN_ONE_KERNEL and moving:
                self.update_in_one_kernel(moving, group.rate)
            else:
                self.update_one_by_one(moving, group.rate)
        if self.average:
            self.average.follow(self.count)

    @abstractmethod
    def update_in_one_kernel(self, names: list[str], rate: float | Tensor) -> None:
        """The update of these parameters, which all have gradients."""

    @abstractmethod
    def update_one_by_one(self, names: list[str], rate: float | Tensor) -> None:
        """The same where there is no such kernel."""

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """While this is open the weights are their average, where there is one; training goes on from its own."""
        if self.average is None:
            yield
            return
        self.average.swap()
        try:
            yield
        finally:
            self.average.swap()

    def settle(self) -> None:
        """End with the average of the weights, where there is one."""
        if self.average:
            self.average.swap()

    def of(self, kind: str, names: list[str]) -> list[Tensor]:
        """What is remembered of these parameters."""
        return [self.memory[kind][name] for name in names]

    def weights_and_gradients(self, names: list[str]) -> tuple[list[Tensor], list[Tensor]]:
        """Of parameters that have both."""
        weights: list[Tensor] = [self.parameters[name] for name in names]
        return weights, [weight.grad for weight in weights if weight.grad is not None]


def factor_of(name: str, factors: Mapping[str, float]) -> float:
    """The factor of a parameter's learning rate: that of the longest name it belongs to, else 1."""
    parts = [part for part in factors if f"{name}.".startswith(f"{part}.")]
    return factors[max(parts, key=len)] if parts else 1.0
