"""The base class of objectives: the scalar that a stage minimises, from a network and a batch."""

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
    """A classifier, or a compiled or fused equivalent."""

    @property
    def head(self) -> Head:
        """Features to outputs."""

    def features(self, images: Tensor) -> Tensor:
        """Features [batch, features] of normalised images. Call it only once in a step."""

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs."""


class Objective(nn.Module):
    """``objective(network, batch, noise)`` is the scalar to minimise; ``noise`` is what ``draw`` gave for that batch.

    The arguments are a loss, the training images per class and the length of the features; options are keyword-only.
    Trained parameters belong in the head of the network, which saves them; tensors that change during a stage are
    buffers, which ``advance`` changes in place.
    """

    second: ClassVar[bool] = False  # needs a batch of the stage's second sampler with every batch
    views: ClassVar[int] = 0  # further views that it needs of each image; they are never mixed
    mixes: ClassVar[bool] = True  # works with mixup and CutMix
    branches: ClassVar[int] = 1  # of the backbone
    experts: int = 1  # of the backbone
    expert_heads: ClassVar[bool] = False  # works with the mean of several experts' heads
    distills: ClassVar[bool] = False  # has ``with_outputs``, so teachers can be added
    needs: ClassVar[type[Head] | None] = None  # the head that it works with; None: any
    per_image: bool = False  # a plain mean over images if the loss is one
    weighs: ClassVar[bool] = False  # corrects a micro-batch with the loss's ``in_whole``

    def __init__(self, loss: Loss, counts: Sequence[int] = (), features: int = 1) -> None:  # noqa: ARG002
        super().__init__()
        self.loss = loss

    def prior(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The class prior that the outputs imply, given the priors of the first and second sampler."""
        return self.loss.prior(first)

    def advance(self, share: float) -> None:
        """Called before each epoch with the share of the stage's epochs that are done, 0 ≤ share < 1."""
        self.loss.advance(share)

    def draw(self, batch: Batch, generator: torch.Generator) -> Any:
        """The random numbers that one call needs, drawn outside of anything compiled.

        For a micro-batch, those of the whole batch, from which ``cut`` takes its rows.
        """
        raise NotImplementedError

    def precompute(self, batch: Batch) -> Batch:
        """The batch with what a call needs and no weight changes, so that it can be computed before the step."""
        return batch

    def forward(self, network: Network, batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise; by default that of ``with_outputs``."""
        return self.with_outputs(network, batch, noise)[0]

    def with_outputs(self, network: Network, batch: Batch, noise: Any) -> tuple[Tensor, Tensor]:
        """The scalar to minimise, and the head's outputs [batch, classes] for the images of the batch."""
        raise NotImplementedError


def cut(noise: Any, micro_batch: Batch) -> Any:
    """The rows of a micro-batch among the random numbers of its whole batch.

    ``noise`` is what ``draw`` returned: tensors, lists and tuples. The first dimension of a tensor is the images of the
    batch, or 1 if they share it.
    """
    if isinstance(noise, Tensor):
        return noise if len(noise) == 1 else noise[micro_batch.place : micro_batch.place + len(micro_batch.target)]
    if isinstance(noise, list | tuple):
        return type(noise)(cut(part, micro_batch) for part in noise)
    return noise
