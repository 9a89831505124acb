"""Head transforms: how the head that a stage starts with is made from the trained one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.calibration.held_out import HeldOutOutputs
from tailcloud.heads import ExpertHeads, Head, LinearHead, ScaledHead

# by the name of the trained head, that of the new one
SCALED_HEADS = {"linear": "scaled-linear", "cosine": "scaled-cosine"}
SHIFTED_HEADS = {"linear": "linear", "cosine": "scaled-cosine", **{head: head for head in SCALED_HEADS.values()}}
ALIGNED_HEADS = {"linear": "disalign-linear", "cosine": "disalign-cosine"}


def no_held_out_images() -> None:
    """The default of ``TrainedModelView.held_out``."""


def ignore_note(note: str) -> None:
    """The default of ``TrainedModelView.add_note``."""


@dataclass(frozen=True)
class TrainedModelView:
    """What a head transform may use of the trained model.

    ``scale`` times the outputs of the coming stage are logits. ``features()`` returns the features [images, features]
    of all training images without augmentation, and their classes [images]. ``held_out()`` returns the outputs for
    held-out images, or None if there are too few. ``add_note`` takes a sentence for the user.
    """

    scale: float
    features: Callable[[], tuple[Tensor, Tensor]]
    held_out: Callable[[], HeldOutOutputs | None] = no_held_out_images
    add_note: Callable[[str], None] = ignore_note


class HeadTransform:
    """Makes the head that a stage starts with from the trained one. Options are keyword-only.

    ``head_after`` names the new head. One of that name is built, with fresh weights that depend on the seed alone, and
    ``apply`` fills it. What ``apply`` does not fill stays fresh.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts

    balances: ClassVar[bool] = False  # the new head implies a uniform class prior
    needs_held_out: ClassVar[bool] = False  # it is fitted on held-out images, and refused without any

    def prior(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """The class prior that the new head implies if it is not trained further, given that of the trained head."""
        return np.full(len(before), 1 / len(before)) if self.balances else before

    def head_after(self, before: str) -> str:
        """The name of the new head, given that of the trained one; ``ValueError`` if the two do not go together."""
        return before

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:
        """Fill the new head from the trained one. Called without gradients."""
        raise NotImplementedError


def transform_head(transform: HeadTransform, old: Head, new: Head, trained: TrainedModelView) -> None:
    """Fill the new head from the trained one; with several experts, that of each by itself.

    Held-out outputs are the mean of all experts, so every expert has the same bias removed, and it is noted once.
    """
    if not isinstance(old, ExpertHeads):
        transform.apply(old, new, trained)
        return
    assert isinstance(new, ExpertHeads)
    experts = len(old.experts)
    for number, (one, other) in enumerate(zip(old.experts, new.experts, strict=True)):
        assert isinstance(one, Head)
        assert isinstance(other, Head)
        features = partial(_features_of_expert, trained, number, experts)
        add_note = ignore_note if number else trained.add_note
        transform.apply(one, other, replace(trained, features=features, add_note=add_note))


def _features_of_expert(trained: TrainedModelView, number: int, experts: int) -> tuple[Tensor, Tensor]:
    features, labels = trained.features()
    return features.chunk(experts, dim=1)[number], labels


def look_up_head(before: str, heads: Mapping[str, str], transform: str) -> str:
    """The entry of ``heads`` for the trained head; ``ValueError`` with a sentence if there is none."""
    if before not in heads:
        raise ValueError(
            f'"{transform}" cannot change a {before} head; the stage before must leave one of: {", ".join(heads)}'
        )
    return heads[before]


def shift_outputs(old: Head, new: Head, shift: NDArray[np.float64]) -> None:
    """Fill a head of ``SHIFTED_HEADS`` so that its outputs are those of the trained one plus ``shift`` [classes].

    A linear head takes the shift into its bias; a cosine head becomes a scaled one.
    """
    inner = new.inner if isinstance(new, ScaledHead) and not isinstance(old, ScaledHead) else new
    inner.load_state_dict(old.state_dict())
    if isinstance(new, ScaledHead):
        new.shift.add_(torch.from_numpy(shift).to(new.shift))
    elif isinstance(new, LinearHead):
        new.bias.add_(torch.from_numpy(shift).to(new.bias))
