"""What an objective is here: the scalar that a stage lowers, from a network and a batch."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head
from tailcloud.losses import Loss


class Network(Protocol):
    """A classifier, or something that computes what it computes."""

    @property
    def head(self) -> Head:
        """Features to outputs."""

    def features(self, images: Tensor) -> Tensor:
        """Features [batch, features] of normalised images. Call it once a step: one batch, one pass."""

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs."""


class Objective(nn.Module):
    """``objective(network, batch, noise)`` is the scalar to minimise; ``noise`` is what ``draw`` gave for that batch.

    It is made from a loss, the training images per class and the length of the backbone's features; options are
    keyword-only. Trained parameters do not live here but in the network's head, so that they are saved and resumed
    with it; tensors that change over a stage are buffers, changed in place by ``advance``.
    """

    second: ClassVar[bool] = False  # a batch of the stage's second sampler comes with every batch
    views: ClassVar[bool] = False  # and a second view of each image
    mixes: ClassVar[bool] = True  # knows what to do with a mixed batch
    branches: ClassVar[int] = 1  # of the backbone
    needs: ClassVar[type[Head] | None] = None  # the kind of head it works with, where not all will do
    per_image: bool = False  # with a loss that is so, the mean of what each image adds alone
    weighs: ClassVar[bool] = False  # and that of a piece goes through the loss's ``in_whole``

    def __init__(self, loss: Loss, counts: Sequence[int] = (), features: int = 1) -> None:  # noqa: ARG002
        super().__init__()
        self.loss = loss

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The mix of classes that the model's outputs assume, given those of both streams of batches."""
        return self.loss.prior(first)

    def advance(self, share: float) -> None:
        """Called before each epoch with the share of the stage's epochs that are done, 0 ≤ share < 1."""
        self.loss.advance(share)

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """The random numbers that one call needs, drawn outside of anything compiled.

        For a piece, those of the whole batch, from which ``cut`` takes its own.
        """
        raise NotImplementedError

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        raise NotImplementedError


def cut(noise: Any, piece: Batch) -> Any:
    """A piece's own numbers among those that were drawn for its whole batch.

    ``noise`` is what ``draw`` gave: tensors whose first dimension is the images of the batch, or 1 where they share
    them, in lists and tuples.
    """
    if isinstance(noise, Tensor):
        return noise if len(noise) == 1 else noise[piece.place : piece.place + len(piece.target)]
    if isinstance(noise, list | tuple):
        return type(noise)(cut(part, piece) for part in noise)
    return noise
