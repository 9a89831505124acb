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
from tailcloud.heads import HEADS
from tailcloud.losses import LOSSES, Loss
from tailcloud.plugins.contracts import check_signature, try_backbone, try_head, try_loss, try_sampler
from tailcloud.recipe import Recipe
from tailcloud.recipe.library import PLUGIN_METHODS, plugin_method
from tailcloud.sampling import WEIGHTS

Weigh = Callable[..., NDArray[np.float64]]

REGISTERED: set[tuple[str, str]] = set()  # kind and name of every registered part


def register_loss(name: str, loss: Callable[..., Loss]) -> None:
    """Register a loss: ``loss(counts, *, option=…)`` makes a ``tailcloud.losses.Loss``.

    >>> tailcloud.register_loss("my-loss", MyLoss)  # doctest: +SKIP
    """
    check_signature("loss", loss, ("counts",))
    with torch.random.fork_rng(devices=[]):
        try_loss(loss)
    _register("loss", LOSSES, name, loss)


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
    with torch.random.fork_rng(devices=[]):
        try_head(head)
    _register("head", HEADS, name, head)


def register_backbone(name: str, backbone: Callable[..., nn.Module]) -> None:
    """Register a backbone: ``backbone(channels=…, width=…)`` maps images [batch, channels, H, W] to features.

    Its attribute ``features`` is the length of a feature vector; ``width`` is ``model.width`` of the recipe.
    """
    with torch.random.fork_rng(devices=[]):
        try_backbone(backbone)
    _register("backbone", BACKBONES, name, backbone)


def register_method(name: str, toml: str | Path) -> None:
    """Register a method: TOML text, or the path of a file with it, as in ``tailcloud/methods``.

    The comment at its top is its description in ``tailcloud recipes ls``.
    """
    _register("method", PLUGIN_METHODS, name, plugin_method(name, toml))


def _register(kind: str, known: dict[str, Any], name: str, part: object) -> None:
    """Add a part to those of its kind. A name can be used once, but the same part may be registered again."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f'"{name}" is not a valid name for a {kind}; use letters, digits, "-", "_" and "."')
    if kind == "method":
        from tailcloud.recipe import shipped

        taken = shipped("methods").get(name)
    else:
        taken = known.get(name)
    if taken is not None and not _same(taken, part):
        raise UsageError(f'there is a {kind} "{name}" already; give yours another name')
    known[name] = part
    REGISTERED.add((kind, name))


def _same(old: object, new: object) -> bool:
    """Whether two parts are the same: equal, or defined again in the same place, as in a notebook."""
    place = getattr(old, "__module__", None), getattr(old, "__qualname__", None)
    return old == new or (None not in place and place == (new.__module__, getattr(new, "__qualname__", None)))


def uses_plugins(recipe: Recipe) -> bool:
    """Whether a method or a part of the recipe was registered by a plugin of this process."""
    named = {("method", method) for method in recipe.method.split("+")}
    named |= {("backbone", recipe.model.backbone), ("head", recipe.model.head)}
    for stage in recipe.stages.values():
        samplers = [part for part in (stage.sampler, stage.second_sampler) if part]
        named |= {("loss", stage.loss.name), *(("sampler", part.name) for part in samplers)}
    return not named.isdisjoint(REGISTERED)
