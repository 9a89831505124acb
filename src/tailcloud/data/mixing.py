"""Mixup (Zhang et al., ICLR 2018): x = λ·x_a + (1 − λ)·x_b with λ ~ Beta(α, α), one λ per batch."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def draw_lambdas(generator: np.random.Generator, alpha: float, steps: int) -> NDArray[np.float32]:
    """λ for each step of an epoch."""
    return generator.beta(alpha, alpha, steps).astype(np.float32)


def draw_partners(generator: np.random.Generator, batch_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every position of an epoch, a partner in the same batch: a random permutation within each batch.

    ``batch_of`` is the batch number of each position, ascending. Sorting number + [0, 1) shuffles inside batches only.
    """
    return np.argsort(batch_of + generator.random(len(batch_of)), kind="stable")


def mix(images: Tensor, partners: Tensor, lam: Tensor) -> Tensor:
    """The mixed batch; ``partners`` are positions in the batch."""
    return lam * images + (1 - lam) * images[partners]
