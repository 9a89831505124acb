"""The contract of optimisers (docs/extending.md), tried on a few small parameters."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tailcloud.errors import UsageError
from tailcloud.optimizers import Optimizer
from tailcloud.plugins.contracts import called, moved_tensors
from tailcloud.recipe import PartSpec, Stage

RATE = 0.1
STAGE = Stage(epochs=1, loss=PartSpec(name="ce"), lr=RATE, weight_decay=0.05)
CPU, UNFUSED = torch.device("cpu"), torch.device("meta")  # one whose updates have fused kernels, and one without
SHAPES = {"layer.weight": (3, 2), "layer.bias": (3,), "unused.weight": (2, 2)}
UNUSED = "unused.weight"  # has no gradient
READERS = {Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.__float__, Tensor.__int__}


class HostReads(TorchFunctionMode):
    """Notes whether Python reads a value of a tensor, as ``item()`` and ``alpha=`` do."""

    found = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of PyTorch."""
        numbers = [(kwargs or {}).get(name) for name in ("alpha", "value")]
        self.found = self.found or func in READERS or any(isinstance(number, Tensor) for number in numbers)
        return func(*args, **(kwargs or {}))


class OptimizerTrial:
    """Parameters, and an optimiser that updates them along gradients that depend on the number of the step alone."""

    def __init__(self, factory: type[Optimizer], weights: Mapping[str, Tensor] | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        fresh = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        self.parameters = {name: nn.Parameter(value.clone()) for name, value in (weights or fresh).items()}
        self.optimizer = factory(STAGE, self.parameters, CPU, ())

    def step(self, number: int, rate: float = RATE) -> None:
        """One update."""
        self.optimizer.set_rate(rate)
        self.update(number)

    def update(self, number: int) -> None:
        """One update at the rate that is set."""
        generator = torch.Generator().manual_seed(number)
        self.optimizer.zero_grad()
        for name, parameter in self.parameters.items():
            parameter.grad = None if name == UNUSED else torch.randn(parameter.shape, generator=generator)
        self.optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def saved(self) -> dict[str, Tensor]:
        """Copies of the state."""
        return {name: value.clone() for name, value in self.optimizer.state.items()}

    def places(self) -> dict[str, Tensor]:
        """Weights and state, in the memory that they have now, which stays taken."""
        return {name: value.detach() for name, value in {**self.parameters, **self.optimizer.state}.items()}


def try_optimizer(optimizer: type[Optimizer]) -> None:
    """An ``Optimizer`` whose steps follow from weights, gradients, rate and ``state`` alone, and stay in place."""
    name = called(optimizer)
    if not isinstance(optimizer, type) or not issubclass(optimizer, Optimizer):
        raise UsageError(f"{name} must be a tailcloud.optimizers.Optimizer; write class {name}(Optimizer)")
    if optimizer.__abstractmethods__:
        raise UsageError(f"{name} needs update_unfused(self, names, rate, decay), which updates these parameters")
    if not isinstance(getattr(optimizer, "buffer_names", None), tuple):
        raise UsageError(
            f'{name} needs the class attribute buffer_names: what it keeps of each parameter, for example ("mean",), '
            "or () for nothing"
        )
    optimizer(STAGE, {}, CPU, ())  # as recipes are checked
    steps = OptimizerTrial(optimizer)
    _check_steps(name, steps)
    _check_repeats(name, optimizer, steps)
    _check_resumes(name, optimizer)
    _check_rate(name, optimizer)


def _check_steps(name: str, trial: OptimizerTrial) -> None:
    """Three updates: finite, in place, and of parameters with a gradient only."""
    before, places = trial.weights(), trial.places()
    for number in range(3):
        trial.step(number)
    after = trial.weights()
    moved = [key for key, value in after.items() if not torch.equal(value, before[key])]
    if UNUSED in moved:
        raise UsageError(f"{name} updates a parameter without a gradient; update those of names alone")
    if set(moved) != set(SHAPES) - {UNUSED}:
        raise UsageError(f"{name} does not update every parameter of names")
    if not all(bool(torch.isfinite(value).all()) for value in after.values()):
        count = (
            "" if type(trial.optimizer).counts else "; write counts = True if it divides by a function of self.count"
        )
        raise UsageError(f"{name} makes weights that are NaN or infinite{count}")
    if other := moved_tensors(places, trial.places()):
        raise UsageError(
            f"{name} must update {other[0]} in place, as sub_ and copy_ do: a captured step reads it at its address"
        )


def _check_repeats(name: str, factory: type[Optimizer], steps: OptimizerTrial) -> None:
    """The same updates again, whatever PyTorch's own generator has; and with a fused kernel, if there is one."""
    again, unfused = OptimizerTrial(factory), OptimizerTrial(factory)
    unfused.optimizer.device = UNFUSED
    torch.default_generator.manual_seed(1)
    for number in range(3):
        again.step(number)
        unfused.step(number)
    if not _equal(again.weights(), steps.weights()):
        raise UsageError(f"{name} gives two results for the same weights and gradients; use no random numbers")
    for key, value in unfused.weights().items():
        if not torch.allclose(value, steps.parameters[key], rtol=1e-3, atol=1e-5):
            raise UsageError(f"update_fused and update_unfused of {name} differ; both must compute the same update")


def _check_resumes(name: str, factory: type[Optimizer]) -> None:
    """A third update from the saved state of two is the third of three."""
    first = OptimizerTrial(factory)
    for number in range(2):
        first.step(number)
    resumed = OptimizerTrial(factory, first.weights())
    resumed.optimizer.restore(first.saved())
    for trial in (first, resumed):
        trial.step(2)
    if not _equal(first.weights(), resumed.weights()) or not _equal(first.saved(), resumed.saved()):
        raise UsageError(
            f"{name} remembers something that a checkpoint does not save; keep it in the tensors of buffer_names, and "
            "with counts = True take the number of updates from self.count"
        )


def _check_rate(name: str, factory: type[Optimizer]) -> None:
    """Updates follow the learning rate, which is a tensor on a GPU."""
    plain, larger, tensor = OptimizerTrial(factory), OptimizerTrial(factory), OptimizerTrial(factory)
    plain.step(0)
    larger.step(0, 2 * RATE)
    if _equal(plain.weights(), larger.weights()):
        raise UsageError(f"{name} does not use the learning rate; multiply the update by rate")
    tensor.optimizer.device = UNFUSED  # fused kernels may read it, on a CPU
    for group in tensor.optimizer.groups:
        group.rate = torch.tensor(group.factor * RATE)
    with HostReads() as reads:
        tensor.update(0)
    if reads.found:
        raise UsageError(
            f"{name} reads the value of a tensor in Python, as item() and alpha= do; a captured step would keep it "
            "forever: rate is a tensor on a GPU, so write weight.sub_(rate * step)"
        )
    if any(not torch.allclose(value, tensor.parameters[key], rtol=1e-3) for key, value in plain.weights().items()):
        raise UsageError(f"{name} gives another result if rate is a tensor, which it is on a GPU")


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())
