"""What a loss is here: an ``nn.Module`` on the outputs of a head, which owns its randomness openly."""

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class Loss(nn.Module):
    """``loss(output, target)`` is a scalar; ``output`` is [batch, classes], ``target`` [batch] of class numbers.

    A loss with a random part implements ``draw``; the training loop calls it with a generator of its own and
    passes the result in as ``epsilon``, so that a compiled or captured step draws nothing by itself.
    A loss that changes while a stage goes on implements ``advance``.
    """

    needs_cosine: ClassVar[bool] = False
    balances: ClassVar[bool] = False  # the clean logits are meant for classes that are all alike
    per_image: bool = False  # the mean of what each image adds alone, so that a batch may be computed in pieces
    weighs: ClassVar[bool] = False  # that mean up to weights of images, which ``in_whole`` sees to

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = positive("scale", scale)

    def logits(self, output: Tensor) -> Tensor:
        """The clean logits that predict: no noise, no margin, only the scale."""
        return self.scale * output

    def prior(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mix of classes that the clean logits assume, once trained on images of the mix ``shown``; sums to 1.

        By default that mix itself, or equal shares where the class says ``balances``.
        """
        return np.full(len(shown), 1 / len(shown)) if self.balances else shown

    def advance(self, share: float) -> None:
        """Called before each epoch with the share of the stage's epochs that are done, 0 ≤ share < 1.

        What follows from it may go into registered buffers only, and in place: a captured step reads them where they
        lie, and a compiled one is compiled once. It must depend on the share alone, or a resumed run would differ.
        """

    def draw(self, rows: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor | None:  # noqa: ARG002
        """The random numbers that one call on ``rows`` samples needs; None when the loss is deterministic.

        Their first dimension is ``rows``, or 1 where all samples share them.
        """
        return None

    def in_whole(self, mean: Tensor, target: Tensor, whole: Tensor) -> Tensor:  # noqa: ARG002
        """The mean loss of a piece of a batch, made such that pieces add up to the loss of the batch.

        ``target`` and ``whole`` are the classes of both; each piece then counts by its number of images.
        """
        return mean

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:
        """The mean loss of a batch."""
        raise NotImplementedError


def positive(name: str, value: float) -> float:
    """The value, if it is a positive finite number."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} = {value} must be a positive number")
    return value


def not_negative(name: str, value: float) -> float:
    """The value, if it is zero or a positive finite number."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} = {value} must not be negative")
    return value


def within(name: str, value: float, low: float, high: float) -> float:
    """The value, if it lies in [low, high]."""
    if not low <= value <= high:
        raise ValueError(f"{name} = {value} must lie between {low:g} and {high:g}")
    return value


def at_least_float32(output: Tensor) -> Tensor:
    """Half precision is for convolutions: a softmax is computed in float32 or better."""
    return output if output.dtype == torch.float64 else output.float()


def batch_mean(per_sample: Tensor) -> Tensor:
    """The mean over a batch; 0 for an empty one, where PyTorch would say NaN."""
    return per_sample.sum() / max(len(per_sample), 1)
