"""A head whose outputs are shifted class by class: a linear head in its bias, a cosine head as a scaled one."""

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.heads import Head, LinearHead, ScaledHead


def shift_outputs(old: Head, new: Head, shift: NDArray[np.float64]) -> None:
    """Fill a head of the kind that ``SHIFTED`` has for the old one: its outputs, and ``shift`` [classes] added."""
    inner = new.inner if isinstance(new, ScaledHead) and not isinstance(old, ScaledHead) else new
    inner.load_state_dict(old.state_dict())
    if isinstance(new, ScaledHead):
        new.shift.add_(torch.from_numpy(shift).to(new.shift))
    elif isinstance(new, LinearHead):
        new.bias.add_(torch.from_numpy(shift).to(new.bias))
