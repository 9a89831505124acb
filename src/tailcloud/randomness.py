"""Owned randomness: every random part has its own generator, made from (seed, part, epoch).

Nothing here keeps state between epochs. A run that is killed and resumed therefore makes the same draws without
storing a generator (but for that of the clouds, within an epoch), and a part that draws more or less than before
disturbs no other part.
"""

from hashlib import sha256

import numpy as np
import torch


def derive_seed(seed: int, *part: str | int) -> int:
    """A 63-bit seed for one part of a run, for example ``derive_seed(0, "stage1", "order", epoch)``."""
    digest = sha256(repr((seed, *part)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def host_generator(seed: int, *part: str | int) -> np.random.Generator:
    """For what an epoch needs as whole arrays: order, crops, flips, mixing."""
    return np.random.default_rng(derive_seed(seed, *part))


def device_generator(device: torch.device, seed: int, *part: str | int) -> torch.Generator:
    """For what is drawn step by step on the device: the clouds of the loss."""
    return torch.Generator(device).manual_seed(derive_seed(seed, *part))
