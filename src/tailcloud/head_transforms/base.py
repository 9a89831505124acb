"""What can happen to a head between two stages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.heads import Head


@dataclass(frozen=True)
class HeldOut:
    """What the model says about images that were not trained on.

    ``outputs`` is [images, classes] and ``target`` [images]. ``shift`` [classes] is log π_j − log π_a,j: the mix of
    classes of these images, against the one that the outputs assume; −∞ for a class that none of them is of.
    """

    outputs: NDArray[np.float64]
    target: NDArray[np.int64]
    shift: NDArray[np.float64]


def nothing() -> None:
    """No image is held out."""


def unheard(sentence: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Trained:
    """What the stages before have left, for a change that looks at it.

    ``features()`` gives the features [images, features] of all training images as they are stored, and their classes.
    ``scale`` stretches the outputs of the coming stage to logits. ``held_out()`` is what the trained model says about
    held-out images; None where they are too few. ``say`` takes a sentence for the person at the keyboard.
    """

    scale: float
    features: Callable[[], tuple[Tensor, Tensor]]
    held_out: Callable[[], HeldOut | None] = nothing
    say: Callable[[str], None] = unheard


class HeadTransform:
    """Makes the head that a stage starts with from the one that the stages before have left. Options are keyword-only.

    ``kind`` says which head it will be; one of that kind is built, with fresh weights that follow from the seed alone;
    ``apply`` then fills it. What is not filled stays fresh.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts

    balances: ClassVar[bool] = False  # the new head is meant for classes that are all alike
    looks_at_held_out: ClassVar[bool] = False  # there is no such change without images that were not trained on

    def prior(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mix of classes that the new head assumes, if nothing is trained afterwards, given that of the old one."""
        return np.full(len(before), 1 / len(before)) if self.balances else before

    def kind(self, before: str) -> str:
        """The name of the head afterwards, given the one before; ``ValueError`` if there is no such change."""
        return before

    def apply(self, old: Head, new: Head, trained: Trained) -> None:
        """Fill the new head. Called without gradients; the old head is as it was trained."""
        raise NotImplementedError
