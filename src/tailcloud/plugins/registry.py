"""Register parts of plugins, one function for each kind. A part is tried once, so that its errors show immediately."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tailcloud.backbones import BACKBONES
from tailcloud.errors import UsageError
from tailcloud.head_transforms import HEAD_TRANSFORMS, HeadTransform
from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Objective
from tailcloud.optimizers import OPTIMIZERS, Optimizer
from tailcloud.plugins.contracts import check_signature, try_backbone, try_head, try_loss, try_sampler
from tailcloud.plugins.head_transform_contract import try_head_transform
from tailcloud.plugins.objective_contract import try_objective
from tailcloud.plugins.optimizer_contract import try_optimizer
from tailcloud.recipe import Recipe
from tailcloud.recipe.library import PLUGIN_METHODS, plugin_method
from tailcloud.sampling import WEIGHTS

Weigh = Callable[..., NDArray[np.float64]]

KINDS = {  # by field of a stage, the kind of its part
    "sampler": "sampler",
    "second_sampler": "sampler",
    "cutmix_sampler": "sampler",
    "loss": "loss",
    "objective": "objective",
    "head_transform": "head transform",
    "optimizer": "optimiser",
}
REGISTERED: set[tuple[str, str]] = set()  # kind and name of every registered part


def register_loss(name: str, loss: Callable[..., Loss]) -> None:
    """Register a loss: ``loss(counts, *, option=…)`` makes a ``tailcloud.losses.Loss``.

    >>> tailcloud.register_loss("my-loss", MyLoss)  # doctest: +SKIP
    """
    check_signature("loss", loss, ("counts",))
    _register_tried("loss", LOSSES, name, loss, try_loss)


def register_sampler(name: str, weigh: Weigh) -> None:
    """Register a sampler: ``weigh(counts, *, option=…)`` is the weight of one image of each class.

    ``counts`` is an array of the images per class, all of them at least 1. An epoch draws as many images as there are,
    with replacement; the share of class j is counts[j] · weight[j] over the sum of all.
    """
    check_signature("sampler", weigh, ("counts",))

    @wraps(weigh)
    def checked(counts: NDArray[np.int64], **options: Any) -> NDArray[np.float64]:
        return try_sampler(name, weigh, counts, options)

    checked(np.array([10, 1]))
    _register("sampler", WEIGHTS, name, checked)


def register_head(name: str, head: Callable[..., nn.Module]) -> None:
    """Register a head: ``head(features, classes)`` is a module from [batch, features] to [batch, classes].

    Its class attribute ``cosine`` says whether its outputs lie in [−1, 1].
    """
    check_signature("head", head, ("features", "classes"))
    _register_tried("head", HEADS, name, head, try_head)


def register_backbone(name: str, backbone: Callable[..., nn.Module]) -> None:
    """Register a backbone: ``backbone(channels=…, width=…)`` maps images [batch, channels, H, W] to features.

    Its attribute ``features`` is the length of a feature vector; ``width`` is ``model.width`` of the recipe.
    """
    _register_tried("backbone", BACKBONES, name, backbone, try_backbone)


def register_objective(name: str, objective: type[Objective]) -> None:
    """Register an objective: ``objective(loss, counts, features, *, option=…)`` makes what a stage minimises.

    It is a class derived from ``tailcloud.objectives.Objective``.
    """
    check_signature("objective", objective, ("loss", "counts", "features"))
    _register_tried("objective", OBJECTIVES, name, objective, try_objective)


def register_head_transform(name: str, transform: Callable[..., HeadTransform]) -> None:
    """Register a head transform: ``transform(counts, *, option=…)`` makes the head that a stage starts with.

    It is a ``tailcloud.head_transforms.HeadTransform``, and is tried on every head that it does not refuse.
    """
    check_signature("head transform", transform, ("counts",))
    _register_tried("head transform", HEAD_TRANSFORMS, name, transform, try_head_transform)


def register_optimizer(name: str, optimizer: type[Optimizer]) -> None:
    """Register an optimiser: ``optimizer(settings, parameters, device, layers, *, option=…)`` updates parameters.

    It is a class derived from ``tailcloud.optimizers.Optimizer``.
    """
    check_signature("optimiser", optimizer, ("settings", "parameters", "device", "layers"))
    _register_tried("optimiser", OPTIMIZERS, name, optimizer, try_optimizer)


def register_method(name: str, toml: str | Path) -> None:
    """Register a method: TOML text, or the path of a file with it, as in ``tailcloud/methods``.

    The comment at its top is its description in ``tailcloud recipes ls``.
    """
    _register("method", PLUGIN_METHODS, name, plugin_method(name, toml))


def _register_tried(kind: str, known: dict[str, Any], name: str, part: Any, attempt: Callable[[Any], object]) -> None:
    """Try a part, without an effect on PyTorch's random numbers, and add it to those of its kind."""
    with torch.random.fork_rng(devices=[]):
        attempt(part)
    _register(kind, known, name, part)


def _register(kind: str, known: dict[str, Any], name: str, part: object) -> None:
    """Add a part to those of its kind. A name can be used once, but the same part may be registered again."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(
            f'"{name}" is not a valid name for {_with_article(kind)}; use letters, digits, "-", "_" and "."'
        )
    if kind == "method":
        from tailcloud.recipe import shipped

        taken = shipped("methods").get(name)
    else:
        taken = known.get(name)
    if taken is not None and not _same(taken, part):
        raise UsageError(f'there is {_with_article(kind)} "{name}" already; give yours another name')
    known[name] = part
    REGISTERED.add((kind, name))


def _with_article(kind: str) -> str:
    """A kind of part with its article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _same(old: object, new: object) -> bool:
    """Whether two parts are the same: equal, or defined again in the same place, as in a notebook."""
    place = getattr(old, "__module__", None), getattr(old, "__qualname__", None)
    return old == new or (None not in place and place == (new.__module__, getattr(new, "__qualname__", None)))


def uses_plugins(recipe: Recipe) -> bool:
    """Whether a method or a part of the recipe was registered by a plugin of this process."""
    named = {("method", method) for method in recipe.method.split("+")}
    named |= {("backbone", recipe.model.backbone), ("head", recipe.model.head)}
    for stage in recipe.stages.values():
        parts = ((kind, getattr(stage, field)) for field, kind in KINDS.items())
        named |= {(kind, part.name) for kind, part in parts if part}
    return not named.isdisjoint(REGISTERED)
