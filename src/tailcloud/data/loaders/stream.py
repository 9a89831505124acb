"""The streamed plane: images stay in their files, and are read while earlier batches are computed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from tailcloud.data.augment.mixup import mix
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.base import PlannedLoader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.batch_share import WHOLE, Share
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.file_reader import FileReader, Reader
from tailcloud.data.loaders.prefetch import Arrived, Feeder
from tailcloud.data.loaders.resident import images_at_once


class StreamImages:
    """A part of a data set in its files; ``labels`` are on the device."""

    def __init__(self, split: Split, device: torch.device, decoders: Decoders, reader: Reader | None = None) -> None:
        assert isinstance(split.images, FileImages)
        self.labels = torch.from_numpy(split.labels).to(device)
        self.reader = reader or FileReader(split.images, split.labels, decoders)
        self.feeder = Feeder(self.reader, device, decoders.workers)

    @property
    def device(self) -> torch.device:
        """Where its batches are wanted."""
        return self.labels.device

    def in_order(self, transform: Normalise, share: Share = WHOLE) -> Iterator[Batch]:
        """Every image once, as stored, for evaluation; or those of the batches that are a share of all."""
        batch, images = images_at_once(self.device, self.reader.images.side**2), torch.arange(len(self.labels))
        pieces = share.pieces(0, -(-len(images) // batch))
        return self.some(transform, torch.cat([images[first * batch : last * batch] for first, last in pieces]), batch)

    def some(self, transform: Normalise, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows, given on the host, as stored."""
        for arrived in self.feeder.feed((None, some.numpy(), (some,)) for some in torch.split(rows, batch)):
            yield Batch(transform(arrived.pixels), self.labels[arrived.beside[0]])

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Why images could not be read, by their rows."""
        return self.reader.substitutes.reasons

    def learn(self, met: Mapping[int, str]) -> None:
        """Know, and say once, what other processes could not read; too many unreadable images stop the run."""
        for row, why in met.items():
            self.reader.substitutes.report(row, why)

    @property
    def remarks(self) -> Sequence[str]:
        """What happened on the way."""
        return self.reader.substitutes.remarks()


@dataclass(frozen=True)
class Piece:
    """Some rows of an epoch, the ``own`` ones first, then partners that lie elsewhere in their batch.

    ``lam`` is on the device. ``here`` is where the rows lie, if they lie side by side and have all their partners
    among them: then nothing more has to be said about them there. ``partners`` are those of the own rows, as positions
    among the rows.
    """

    rows: Tensor
    own: int
    lam: Tensor
    here: slice | None = None
    partners: Tensor | None = None
    place: int = 0
    whole: slice | None = None  # where the rows of its batch are


class StreamLoader(PlannedLoader[StreamImages]):
    """Batches of images that are in files: those that a ``ResidentLoader`` has of the same pixels.

    The host knows the plan of an epoch, to ask for images; so does the device, to vary and mix them.
    """

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; the same ones whenever that epoch is asked for."""
        plan = self.plan(number)
        there = plan.to(self.device)
        return self._made(plan, there, (self._whole(there, step) for step in range(self.steps)))

    def rounds(self, number: int, first: int = 0) -> Iterator[tuple[Batch, ...]]:
        """The steps of an epoch from step ``first`` on; of each, the pieces of its batch that are computed here."""
        plan = self.plan(number)
        there, steps = plan.to(self.device), range(first, self.steps)
        made = self._made(plan, there, (piece for step in steps for piece in self._cut(plan, there, step)))
        for _ in steps:
            yield tuple(islice(made, self.own.count))

    def assemble(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Batch:
        """The batch at some rows of an epoch."""
        piece = self._piece(plan, rows.cpu(), lam.to(self.device))
        return next(self._made(plan, plan.to(self.device), iter([piece])))

    assemble_piece = assemble

    def _whole(self, there: EpochPlan, step: int) -> Piece:
        start, end = self.bounds(step)
        return Piece(torch.arange(start, end), end - start, there.lambdas[step], slice(start, end))

    def _cut(self, plan: EpochPlan, there: EpochPlan, step: int) -> list[Piece]:
        """The pieces of a batch that are computed here, or the batch."""
        if self.own == WHOLE:
            return [self._whole(there, step)]
        start, end = self.bounds(step)
        return [
            replace(
                self._piece(plan, torch.arange(first, last), there.lambdas[step]),
                whole=slice(start, end),
                place=first - start,
            )
            for first, last in self.own.pieces(start, end)
        ]

    def _piece(self, plan: EpochPlan, rows: Tensor, lam: Tensor) -> Piece:
        if not self.mixup:
            return Piece(rows, len(rows), lam)
        partners = plan.partners[rows]
        elsewhere = partners[~torch.isin(partners, rows)]  # each row is the partner of one
        wanted = torch.cat([rows, elsewhere])
        ordered, places = wanted.sort()
        return Piece(wanted, len(rows), lam, partners=places[torch.searchsorted(ordered, partners)])

    def _made(self, plan: EpochPlan, there: EpochPlan, pieces: Iterator[Piece]) -> Iterator[Batch]:
        """Their batches; the plan is here and ``there``, on the device."""
        arriving = self.data.feeder.feed((piece, plan.order[piece.rows].numpy(), _beside(piece)) for piece in pieces)
        return (self._batch(there, arrived) for arrived in arriving)

    def _batch(self, plan: EpochPlan, arrived: Arrived[Piece]) -> Batch:
        """From stored pixels to what a training step sees: device code."""
        piece = arrived.job
        rows = arrived.beside[0] if piece.here is None else piece.here
        floats = self.look(arrived.pixels, plan.draws, rows, arrived.aspects)
        target, own = self.data.labels[plan.order[rows]], slice(piece.own)
        whole = None if piece.whole is None else self.data.labels[plan.order[piece.whole]]
        batch = Batch(floats[own], target[own], place=piece.place, whole=whole)
        if not self.mixup:
            return batch
        partners = arrived.beside[1] if piece.here is None else plan.partners[piece.here] - piece.here.start
        lam = piece.lam
        return replace(batch, images=mix(floats[own], floats[partners], lam), other=target[partners], lam=lam)


def _beside(piece: Piece) -> tuple[Tensor, ...]:
    """What the device has to be told about a piece."""
    if piece.here is not None:
        return ()
    return (piece.rows,) if piece.partners is None else (piece.rows, piece.partners)
