"""Streamed images: they stay in their files and are read while earlier batches are computed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from tailcloud.data.augment.normalize import Normalise, Transform
from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.file_reader import FileReader, Reader
from tailcloud.data.loaders.planned_loader import PlannedLoader
from tailcloud.data.loaders.prefetch import Prefetched, Prefetcher
from tailcloud.data.loaders.resident import evaluation_batch
from tailcloud.sampling import Sampler


class StreamImages:
    """A split whose images are in files; ``labels`` are on the device."""

    kind: ClassVar[str] = "stream"
    capturable: ClassVar[bool] = False

    def __init__(self, split: Split, device: torch.device, decoders: Decoders, reader: Reader | None = None) -> None:
        assert isinstance(split.images, FileImages)
        self.labels = torch.from_numpy(split.labels).to(device)
        self.reader = reader or FileReader(split.images, split.labels, decoders)
        self.prefetcher = Prefetcher(self.reader, device, decoders.workers)

    @property
    def device(self) -> torch.device:
        """Where its batches are."""
        return self.labels.device

    def loader(self, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of a stage."""
        return StreamLoader(self, sampler, transform, **options)

    def in_order(self, transform: Normalise, share: BatchShare = WHOLE_BATCH) -> Iterator[Batch]:
        """Every image once, without augmentation, for evaluation; or every image of the batches in a rank's share."""
        batch, images = evaluation_batch(self.device, self.reader.images.side**2), torch.arange(len(self.labels))
        bounds = share.bounds(0, -(-len(images) // batch))
        return self.some(transform, torch.cat([images[first * batch : last * batch] for first, last in bounds]), batch)

    def some(self, transform: Transform, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows (a tensor on the host), without augmentation."""
        requests = ((None, some.numpy(), (some,)) for some in torch.split(rows, batch))
        for arrived in self.prefetcher.prefetch(requests):
            yield Batch(transform(arrived.pixels), self.labels[arrived.extra[0]])

    @property
    def unreadable(self) -> Mapping[int, str]:
        """By row, why an image could not be read."""
        return self.reader.substitutes.reasons

    def report_unreadable(self, reasons: Mapping[int, str]) -> None:
        """Record which images other ranks could not read; each is reported once, and too many stop the run."""
        for row, reason in reasons.items():
            self.reader.substitutes.report(row, reason)

    @property
    def remarks(self) -> Sequence[str]:
        """What a result says about images that could not be read."""
        return self.reader.substitutes.remarks()


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of an epoch: the first ``own`` are computed, the others are partners.

    ``lam`` is on the device. ``here`` is set if the rows are adjacent and all their partners are among them: then no
    row numbers have to be copied to the device. ``partners`` are those of the own rows, as positions among the rows.
    """

    rows: Tensor
    own: int
    lam: Tensor
    here: slice | None = None
    partners: Tensor | None = None
    place: int = 0
    whole: slice | None = None  # rows of the whole batch


class StreamLoader(PlannedLoader[StreamImages]):
    """Batches of images that are in files: the same ones that a ``ResidentLoader`` makes of the same pixels.

    The plan of an epoch is on the host, to request images, and on the device, to augment and mix them.
    """

    @property
    def stored_shape(self) -> tuple[int, int]:
        """Height and width of the stored images."""
        return self.data.reader.images.side, self.data.reader.images.side

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; an epoch always has the same batches."""
        plan = self.plan(number)
        on_device = plan.to(self.device)
        return self._batches(plan, on_device, (self._whole(plan, on_device, step) for step in range(self.steps)))

    def micro_batches(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """For each step of an epoch, from step ``first`` on, the micro-batches that this rank computes."""
        plan = self.plan(number)
        on_device, steps = plan.to(self.device), range(first, self.steps)
        wanted = (micro_batch for step in steps for micro_batch in self._cut(plan, on_device, step))
        batches = self._batches(plan, on_device, wanted)
        for _ in steps:
            yield tuple(islice(batches, self.share.count))

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        micro_batch = self._with_partners(plan, rows.cpu(), lam.to(self.device))
        return next(self._batches(plan, plan.to(self.device), iter([micro_batch])))

    assemble_micro_batch = assemble

    def _whole(self, plan: EpochPlan, on_device: EpochPlan, step: int) -> MicroBatch:
        start, end = self.bounds(step)
        if self.cutmix_sampler:
            return self._with_partners(plan, torch.arange(start, end), on_device.lambdas[step])
        return MicroBatch(torch.arange(start, end), end - start, on_device.lambdas[step], slice(start, end))

    def _cut(self, plan: EpochPlan, on_device: EpochPlan, step: int) -> list[MicroBatch]:
        """The micro-batches of a batch that this rank computes, or the whole batch."""
        if self.share == WHOLE_BATCH:
            return [self._whole(plan, on_device, step)]
        start, end = self.bounds(step)
        return [
            replace(
                self._with_partners(plan, torch.arange(first, last), on_device.lambdas[step]),
                whole=slice(start, end),
                place=first - start,
            )
            for first, last in self.share.bounds(start, end)
        ]

    def _with_partners(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> MicroBatch:
        if not self.mixes:
            return MicroBatch(rows, len(rows), lam)
        partners = plan.partners[rows]
        elsewhere = partners[~torch.isin(partners, rows)]  # each row is the partner of one
        wanted = torch.cat([rows, elsewhere])
        ordered, places = wanted.sort()
        return MicroBatch(wanted, len(rows), lam, partners=places[torch.searchsorted(ordered, partners)])

    def _batches(self, plan: EpochPlan, on_device: EpochPlan, wanted: Iterator[MicroBatch]) -> Iterator[Batch]:
        """The batches of some micro-batches, read ahead of time."""
        requests = ((each, plan.order[each.rows].numpy(), _row_numbers(each)) for each in wanted)
        return (self._batch(on_device, arrived) for arrived in self.data.prefetcher.prefetch(requests))

    def _batch(self, plan: EpochPlan, arrived: Prefetched[MicroBatch]) -> Batch:
        """From stored pixels to a batch: device code."""
        micro_batch = arrived.request
        rows = arrived.extra[0] if micro_batch.here is None else micro_batch.here
        floats = self.pipeline(arrived.pixels, plan.draws, rows, arrived.aspects)
        target, own = self.data.labels[plan.order[rows]], slice(micro_batch.own)
        whole = None if micro_batch.whole is None else self.data.labels[plan.order[micro_batch.whole]]
        other_whole = None if micro_batch.whole is None else self.partner_classes(plan, micro_batch.whole)
        batch = Batch(floats[own], target[own], place=micro_batch.place, whole=whole, other_whole=other_whole)
        if not self.mixes:
            return batch
        here, lam = micro_batch.here, micro_batch.lam
        partners = arrived.extra[1] if here is None else plan.partners[here] - here.start
        own_rows = rows if isinstance(rows, slice) else rows[own]
        images = self.mixed(plan, own_rows, floats[own], floats[partners], lam)
        return replace(batch, images=images, other=target[partners], lam=lam)


def _row_numbers(micro_batch: MicroBatch) -> tuple[Tensor, ...]:
    """The row numbers that the device needs beside its plan."""
    if micro_batch.here is not None:
        return ()
    if micro_batch.partners is None:
        return (micro_batch.rows,)
    return micro_batch.rows, micro_batch.partners
