"""Random generators: every random part of a run has its own, derived from (seed, part, epoch).

No generator keeps state between epochs. A resumed run therefore makes the same draws without a stored generator
(except that of the clouds, within an epoch), and one part can draw more or fewer numbers without changing others.
"""

from hashlib import sha256

import numpy as np
import torch


def derive_seed(seed: int, *part: str | int) -> int:
    """A 63-bit seed for one part of a run, for example ``derive_seed(0, "stage1", "order", epoch)``."""
    digest = sha256(repr((seed, *part)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def host_generator(seed: int, *part: str | int) -> np.random.Generator:
    """A NumPy generator for draws of a whole epoch: order, crops, flips, mixup."""
    return np.random.default_rng(derive_seed(seed, *part))


def device_generator(device: torch.device, seed: int, *part: str | int) -> torch.Generator:
    """A PyTorch generator for draws of each step on the device: the noise of the loss."""
    return torch.Generator(device).manual_seed(derive_seed(seed, *part))
