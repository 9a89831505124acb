"""Checks that a part of a plugin keeps its contract (docs/extending.md), on a small example.

Objectives, head transforms and optimisers have files of their own beside this one.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tailcloud.errors import UsageError
from tailcloud.losses import Loss

COUNTS = [10, 1]
FEATURES, CLASSES = 4, 2
NO_MEAN = (
    "declares per_image = True, but the gradient of a batch is not the mean of those of its images: it cannot be cut "
    "into micro-batches; remove that line"
)


def check_signature(kind: str, factory: Callable[..., object], first: Sequence[str]) -> None:
    """The first parameters must have these names; all others are options: keyword-only, with type and default."""
    parameters = list(inspect.signature(factory).parameters.values())
    if [parameter.name for parameter in parameters[: len(first)]] != list(first):
        named = " and ".join(", ".join(first).rsplit(", ", 1))
        raise UsageError(f"the {kind} {called(factory)} must take {named} first, then its options after *")
    for option in parameters[len(first) :]:
        if option.kind is not option.KEYWORD_ONLY:
            raise UsageError(f"the {kind} {called(factory)} must take {option} by keyword only: put * before it")
        if option.default is option.empty or option.annotation is option.empty:
            raise UsageError(
                f"the option {option.name} of the {kind} {called(factory)} needs a type and a default, "
                f"for example {option.name}: float = 1.0"
            )


def try_loss(factory: Callable[..., Loss]) -> None:
    """A ``Loss`` that returns a scalar with a gradient for outputs [batch, classes] and targets [batch]."""
    loss: object = factory(list(COUNTS))
    if not isinstance(loss, Loss):
        raise UsageError(f"{called(factory)} must return a tailcloud.losses.Loss; write class {called(factory)}(Loss)")
    if not isinstance(getattr(loss, "scale", None), float | int):
        raise UsageError(f"{called(factory)} has no scale; call super().__init__(scale) in its __init__")
    check_no_parameters(called(factory), loss, "a head of your own")
    if "epsilon" not in inspect.signature(loss.forward).parameters:
        raise UsageError(f"{called(factory)}.forward must take epsilon: forward(self, output, target, *, epsilon=None)")
    output, target = torch.tensor([[0.5, -0.5], [0.1, 0.2]], requires_grad=True), torch.tensor([0, 1])
    value: Tensor = loss(output, target, epsilon=loss.draw(len(target), target.device, torch.Generator()))
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        raise UsageError(f"{called(factory)} must return the mean loss of a batch as a scalar tensor with a gradient")
    if loss.per_image:
        try_in_pieces(factory, loss)


def try_in_pieces(factory: Callable[..., Loss], loss: Loss) -> None:
    """A loss with ``per_image`` has the gradient of a batch from its pieces, in which classes are not as frequent."""
    outputs = torch.linspace(-0.8, 0.9, 12).view(6, CLASSES)
    target = torch.tensor([0, 0, 0, 0, 0, 1])
    epsilon = loss.draw(len(target), target.device, torch.Generator().manual_seed(0))

    def gradient(pieces: Sequence[slice]) -> Tensor:
        leaf = outputs.clone().requires_grad_()
        for piece in pieces:
            given = epsilon if epsilon is None or len(epsilon) == 1 else epsilon[piece]
            value: Tensor = loss(leaf[piece], target[piece], epsilon=given)
            (value * len(target[piece]) / len(target)).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        return leaf.grad

    if not same_gradients(gradient([slice(0, 6)]), gradient([slice(0, 4), slice(4, 6)])):
        raise UsageError(f"{called(factory)} {NO_MEAN}")


def same_gradients(whole: Tensor, added: Tensor) -> bool:
    """Whether two gradients are the same up to rounding."""
    return torch.allclose(whole, added, rtol=1e-3, atol=1e-5)


def try_sampler(
    name: str, weigh: Callable[..., object], counts: NDArray[np.int64], options: Mapping[str, Any]
) -> NDArray[np.float64]:
    """One weight per class: finite, not negative, and not all zero."""
    weights = np.asarray(weigh(counts, **options), dtype=np.float64)
    if weights.shape != counts.shape:
        raise UsageError(f'the sampler "{name}" gives weights of shape {weights.shape} for {len(counts)} classes')
    if not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
        raise UsageError(f'the sampler "{name}" gives weights that are negative, not finite or all zero: {weights}')
    return weights


def try_head(factory: Callable[..., nn.Module]) -> None:
    """Outputs [batch, classes] of features [batch, features]."""
    if not isinstance(getattr(factory, "cosine", None), bool):
        raise UsageError(
            f"{called(factory)} needs the class attribute cosine: True if its outputs are cosines, else False"
        )
    head = factory(FEATURES, CLASSES)
    shape = tuple(head(torch.ones(3, FEATURES)).shape)
    if shape != (3, CLASSES):
        raise UsageError(f"{called(factory)} gives outputs of shape {shape} for 3 images and {CLASSES} classes")


def try_backbone(factory: Callable[..., nn.Module]) -> None:
    """A module with the attribute ``features``. It is not called: the image size that it needs is unknown."""
    parameters = inspect.signature(factory).parameters.values()
    names = {parameter.name for parameter in parameters}
    if not {"channels", "width"} <= names and all(
        parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters
    ):
        raise UsageError(f"the backbone {called(factory)} must take the parameters channels and width")
    if not isinstance(getattr(factory(channels=1, width=1.0), "features", None), int):
        raise UsageError(f"{called(factory)} needs the attribute features, the length of its feature vectors")


def check_no_parameters(owner: str, part: nn.Module, place: str) -> None:
    """A loss or an objective has no parameters; ``place`` is where they belong."""
    if trained := [name for name, _ in part.named_parameters()]:
        raise UsageError(
            f"{owner} has the parameter {trained[0]}, which no stage trains or saves; put it into {place}, or make it "
            "a buffer if it is fixed"
        )


def check_prior(owner: str, prior: object) -> None:
    """A class prior: one share per class, finite, not negative, and not all zero."""
    shares = np.asarray(prior, dtype=np.float64)
    if shares.shape != (CLASSES,) or not np.isfinite(shares).all() or shares.min() < 0 or not shares.any():
        raise UsageError(f"{owner}.prior must return one share per class, which add up to 1; it returns {prior}")


def moved_tensors(before: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> list[str]:
    """The names of tensors that are in another place of the memory, where a captured step would not find them."""
    return [name for name, value in now.items() if name not in before or before[name].data_ptr() != value.data_ptr()]


def called(factory: Callable[..., object]) -> str:
    """The name of a part in errors."""
    return getattr(factory, "__name__", type(factory).__name__)
