"""Batches of three views, for objectives that contrast two of them."""

import torch

from tailcloud.data.loaders.batch import Batch

FEATURES = 6


def three_views(seed, rows, classes):
    """Random features as images [rows, 6] in float64."""
    generator = torch.Generator().manual_seed(seed)
    first, *further = (torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64) for _ in range(3))
    return Batch(first, torch.randint(classes, (rows,), generator=generator), views=tuple(further))
