"""The contract of head transforms (docs/extending.md), tried on every head that they accept."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.held_out import MIN_HELD_OUT_IMAGES, HeldOutOutputs
from tailcloud.errors import UsageError, plugin_sentence
from tailcloud.head_transforms import HeadTransform, TrainedModelView
from tailcloud.heads import HEADS, Head
from tailcloud.plugins.contracts import CLASSES, COUNTS, FEATURES, called, check_prior

IMAGES = sum(COUNTS)


def try_head_transform(factory: Callable[..., HeadTransform]) -> None:
    """A ``HeadTransform`` that fills a new head after each head that it does not refuse."""
    name = called(factory)
    transform: object = factory(np.array(COUNTS))
    if not isinstance(transform, HeadTransform):
        raise UsageError(
            f"{name} must return a tailcloud.head_transforms.HeadTransform; write class {name}(HeadTransform)"
        )
    if getattr(transform, "counts", None) is None:
        raise UsageError(f"{name} has no counts; call super().__init__(counts) in its __init__")
    if type(transform).apply is HeadTransform.apply:
        raise UsageError(f"{name} needs apply(self, old, new, trained), which fills the new head")
    refusals = [_try_after(name, transform, kind) for kind in HEADS]
    if None not in refusals:
        raise UsageError(f"{name}.head_after refuses every head: {refusals[0]}")
    check_prior(name, transform.prior(np.array([0.9, 0.1])))


def _try_after(name: str, transform: HeadTransform, before: str) -> str | None:
    """Transform a head of that name, with and without held-out images; the reason if the transform refuses it."""
    try:
        after = transform.head_after(before)
    except ValueError as error:
        return str(error)
    if after not in HEADS:
        raise UsageError(
            f'{name}.head_after("{before}") is "{after}", which is no head; give it a name with '
            "tailcloud.register_head first"
        )
    for held_out in (_held_out(), None):
        filled = [_filled(name, transform, before, after, held_out, seed) for seed in (1, 2)]
        if any(not torch.equal(value, filled[1][key]) for key, value in filled[0].items()):
            raise UsageError(
                f"{name} gives a {before} head other weights each time, so a run could not be repeated; use no random "
                "numbers in apply: what it does not fill is fresh, as the seed of the run says"
            )
    return None


def _held_out() -> HeldOutOutputs:
    target = np.arange(MIN_HELD_OUT_IMAGES) % CLASSES
    outputs = np.random.default_rng(0).normal(size=(len(target), CLASSES))
    return HeldOutOutputs(outputs, target, np.zeros(CLASSES))


def _filled(
    name: str, transform: HeadTransform, before: str, after: str, held_out: HeldOutOutputs | None, seed: int
) -> dict[str, Tensor]:
    """The tensors of the new head; ``seed`` is what PyTorch's own generator has meanwhile."""
    torch.default_generator.manual_seed(0)
    old, new = (HEADS[kind](FEATURES, CLASSES) for kind in (before, after))
    features, labels = torch.randn(IMAGES, FEATURES), torch.arange(IMAGES).remainder(CLASSES)
    given = {**_tensors(old), "features": features.clone(), "labels": labels.clone()}
    expected = {key: value.shape for key, value in new.state_dict().items()}
    torch.default_generator.manual_seed(seed)
    try:
        with torch.no_grad():
            transform.apply(old, new, TrainedModelView(2.0, lambda: (features, labels), lambda: held_out))
    except Exception as error:
        reason = plugin_sentence(error) or f"{type(error).__name__}: {error}"
        without = "" if held_out else " without held-out images"
        raise UsageError(
            f"{name} fails on a {before} head{without} ({reason}); if it is for other heads, let head_after raise a "
            "ValueError"
        ) from None
    now = {**_tensors(old), "features": features, "labels": labels}
    if changed := [key for key, value in given.items() if not torch.equal(value, now[key])]:
        raise UsageError(f"{name} changes {changed[0]} of the trained model; fill the new head alone")
    found = new.state_dict()
    if {key: value.shape for key, value in found.items()} != expected:
        raise UsageError(
            f"{name} changes names or shapes of tensors of a {after} head, which a saved model could not be read with; "
            "fill those that are there"
        )
    if not old(features).isnan().any() and new(features).isnan().any():
        raise UsageError(f"{name} makes a {after} head whose outputs are NaN, from a {before} head")
    return found


def _tensors(head: Head) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in head.state_dict().items()}
