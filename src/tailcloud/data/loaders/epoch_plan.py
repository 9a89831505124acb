"""Everything that is drawn for an epoch before it starts: the same for every loader, device and number of ranks."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment.base import Draws


def batch_ends(size: int, batch: int) -> NDArray[np.int64]:
    """Where the batches of an epoch end. The last one is smaller, but never a single image: batch norm needs two."""
    ends = np.append(np.arange(batch, size, batch), size)
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        ends = np.delete(ends, -2)
    return ends


@dataclass(frozen=True)
class EpochPlan:
    """The draws of an epoch: one row per image of the epoch in all but ``lambdas``, which has one per step.

    ``order`` are positions in the data, ``partners`` rows of the epoch. ``boxes`` [images, 4] are those of CutMix, the
    same for all images of a batch; without CutMix there are none. If partners are of another sampler, as many rows
    again follow in ``order`` and ``draws``: they are in no batch by themselves. ``others`` are the plans of further
    loaders whose batches belong to the same steps.
    """

    order: Tensor
    draws: Draws
    partners: Tensor
    lambdas: Tensor
    boxes: Tensor = field(default_factory=lambda: torch.zeros(0, 4))
    others: tuple["EpochPlan", ...] = ()

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, always in the same order."""
        own = self.order, *self.draws.tensors().values(), self.partners, self.lambdas, self.boxes
        return sum((other.tensors() for other in self.others), own)

    def to(self, device: torch.device) -> "EpochPlan":
        """The same plan on a device."""
        return replace(
            self,
            order=self.order.to(device),
            draws=self.draws.to(device),
            partners=self.partners.to(device),
            lambdas=self.lambdas.to(device),
            boxes=self.boxes.to(device),
        )
