"""The resident plane: the whole training set is one uint8 tensor on the device, and a batch is an index into it."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tailcloud.data.augment.mixup import mix
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.base import PlannedLoader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.batch_share import WHOLE, Share
from tailcloud.data.loaders.epoch_plan import EpochPlan

CACHED_PIXELS = 128 * 32 * 32  # beyond these a CPU waits for its memory
AT_ONCE, PIXELS_AT_ONCE = 1024, 1024 * 224 * 224  # for a GPU: more images, or larger ones, would fill its memory


def images_at_once(device: torch.device, pixels: int) -> int:
    """How many images of so many pixels a model is shown at a time, when nothing is trained: as the device has it best.

    Many for a GPU, as many as a cache holds for a CPU.
    """
    if device.type == "cuda":
        return max(1, min(AT_ONCE, PIXELS_AT_ONCE // pixels))
    return max(16, CACHED_PIXELS // pixels)


class ResidentImages:
    """A part of a data set on the device."""

    def __init__(self, split: Split, device: torch.device) -> None:
        self.images = torch.from_numpy(split.pixels).to(device)
        self.labels = torch.from_numpy(split.labels).to(device)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.images.device

    @property
    def remarks(self) -> Sequence[str]:
        """Nothing happens to them."""
        return ()

    def in_order(self, transform: Normalise, share: Share = WHOLE) -> Iterator[Batch]:
        """Every image once, as stored, for evaluation; or those of the batches that are a share of all."""
        batch = images_at_once(self.device, self.images.shape[1] * self.images.shape[2])
        starts = range(0, len(self.labels), batch)
        for start in (starts[number] for some in share.pieces(0, len(starts)) for number in range(*some)):
            here = slice(start, start + batch)
            yield Batch(transform(self.images[here]), self.labels[here])

    def some(self, transform: Normalise, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows, given on the host, as stored."""
        for here in torch.split(rows.to(self.device), batch):
            yield Batch(transform(self.images[here]), self.labels[here])


class ResidentLoader(PlannedLoader[ResidentImages]):
    """Batches of images that are on the device."""

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the device."""
        return self.drawn(number).to(self.device)

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch: whole-batch device code, nothing drawn and nothing read."""
        floats, target = self._varied(plan, rows)
        if not self.mixup:
            return Batch(floats, target)
        partners = plan.partners[rows] - rows[0]
        return Batch(mix(floats, floats[partners], lam), target, target[partners], lam)

    def assemble_piece(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The same for rows whose mixing partners may lie elsewhere in their batch."""
        floats, target = self._varied(plan, rows)
        if not self.mixup:
            return Batch(floats, target)
        others, other = self._varied(plan, plan.partners[rows])
        return Batch(mix(floats, others, lam), target, other, lam)

    def _varied(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The images at some rows of an epoch, each varied as was drawn for it, and their classes."""
        chosen = plan.order[rows]
        return self.look(self.data.images[chosen], plan.draws, rows), self.data.labels[chosen]
