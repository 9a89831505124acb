"""Resident images: the whole split is one uint8 tensor on the device, and a batch is an index into it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from tailcloud.data.augment.normalize import Normalise, Transform
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.planned_loader import PlannedLoader, Source
from tailcloud.sampling import Sampler

CPU_PIXELS = 128 * 32 * 32  # of a batch that fits into a CPU's cache
GPU_IMAGES, GPU_PIXELS = 1024, 1024 * 224 * 224  # of a batch: more would fill a GPU's memory


def evaluation_batch(device: torch.device, pixels: int) -> int:
    """The batch size for evaluating images of so many pixels: large on a GPU, what fits into the cache on a CPU."""
    if device.type == "cuda":
        return max(1, min(GPU_IMAGES, GPU_PIXELS // pixels))
    return max(16, CPU_PIXELS // pixels)


class DeviceImages:
    """What is on the device was read before: no image can turn out to be unreadable."""

    capturable: ClassVar[bool] = True

    @property
    def unreadable(self) -> Mapping[int, str]:
        """None: all of them were read before."""
        return {}

    def report_unreadable(self, reasons: Mapping[int, str]) -> None:
        """Nothing to do: no rank reads files."""

    @property
    def remarks(self) -> Sequence[str]:
        """None: nothing is read during training."""
        return ()


class ResidentImages(DeviceImages):
    """A split on the device."""

    kind: ClassVar[str] = "resident"

    def __init__(self, split: Split, device: torch.device) -> None:
        self.images = torch.from_numpy(split.pixels).to(device)
        self.labels = torch.from_numpy(split.labels).to(device)

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.images.device

    def loader(self, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of a stage."""
        return ResidentLoader(self, sampler, transform, **options)

    def in_order(self, transform: Normalise, share: BatchShare = WHOLE_BATCH) -> Iterator[Batch]:
        """Every image once, without augmentation, for evaluation; or every image of the batches in a rank's share."""
        batch = evaluation_batch(self.device, self.images.shape[1] * self.images.shape[2])
        starts = range(0, len(self.labels), batch)
        for start in (starts[number] for bounds in share.bounds(0, len(starts)) for number in range(*bounds)):
            here = slice(start, start + batch)
            yield Batch(transform(self.images[here]), self.labels[here])

    def some(self, transform: Transform, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows (a tensor on the host), without augmentation."""
        for here in torch.split(rows.to(self.device), batch):
            yield Batch(transform(self.images[here]), self.labels[here])


class DeviceLoader(PlannedLoader[Source]):
    """Batches of what is on the device; a subclass says what goes into a row of an epoch."""

    def plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the device."""
        return self.draw_plan(number).to(self.device)

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch: device code on whole batches, without draws and host values."""
        if self.cutmix_sampler:
            return self.assemble_micro_batch(plan, rows, lam)
        floats, target = self.rows(plan, rows)
        if not self.mixes:
            return Batch(floats, target)
        partners = plan.partners[rows] - rows[0]
        return Batch(self.mixed(plan, rows, floats, floats[partners], lam), target, target[partners], lam)

    def assemble_micro_batch(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The same for rows whose partners may be elsewhere in their batch, or of another sampler."""
        floats, target = self.rows(plan, rows)
        if not self.mixes:
            return Batch(floats, target)
        others, other = self.rows(plan, plan.partners[rows])
        return Batch(self.mixed(plan, rows, floats, others, lam), target, other, lam)

    def rows(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What the network receives for some rows of an epoch, before mixup, and their classes."""
        raise NotImplementedError


class ResidentLoader(DeviceLoader[ResidentImages]):
    """Batches of images that are on the device."""

    @property
    def stored_shape(self) -> tuple[int, int]:
        """Height and width of the stored images."""
        return self.data.images.shape[1], self.data.images.shape[2]

    def rows(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The augmented images at some rows of an epoch, and their classes."""
        chosen = plan.order[rows]
        return self.pipeline(self.data.images[chosen], plan.draws, rows), self.data.labels[chosen]
