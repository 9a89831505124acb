"""Mixup (Zhang et al., ICLR 2018): x = λ·x_a + (1 − λ)·x_b with λ ~ Beta(α, α), one λ per batch."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 1 << 18  # about as many positions are sorted at a time


def draw_lambdas(generator: np.random.Generator, alpha: float, steps: int) -> NDArray[np.float32]:
    """λ for each step of an epoch."""
    return generator.beta(alpha, alpha, steps).astype(np.float32)


def draw_partners(generator: np.random.Generator, batch_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every position of an epoch, a partner in the same batch: a random permutation within each batch.

    ``batch_of`` is the batch number of each position, ascending. Sorting number + [0, 1) shuffles inside batches only,
    so a few batches are sorted at a time, and the time is linear in the images of an epoch.
    """
    partners = np.empty(len(batch_of), np.int64)
    cuts = np.searchsorted(batch_of, batch_of[BLOCK::BLOCK]).tolist()
    for start, end in pairwise([0, *cuts, len(batch_of)]):
        keys = batch_of[start:end] + generator.random(end - start)
        partners[start:end] = start + np.argsort(keys, kind="stable")
    return partners


def mix(images: Tensor, partners: Tensor, lam: Tensor) -> Tensor:
    """Images blended with those of their partners."""
    return lam * images + (1 - lam) * partners
