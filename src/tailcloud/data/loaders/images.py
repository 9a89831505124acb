"""The images of one split, wherever they are stored: what a run needs of them.

``resident`` and ``stream`` implement ``Images``; ``placement`` chooses between them. ``features`` has features instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, Unpack

import torch
from torch import Tensor

from tailcloud.data.augment.normalize import Normalise, Transform
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.sampling import Sampler


class Images(Protocol):
    """One split of a data set, from which batches are made on a device; ``labels`` are on that device."""

    kind: ClassVar[str]  # as in a recipe's data.loader
    capturable: ClassVar[bool]  # all images are on the device, so a CUDA graph can assemble batches
    labels: Tensor

    @property
    def device(self) -> torch.device:
        """Where its batches are."""

    def loader(self, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of a stage."""

    def in_order(self, transform: Normalise, share: BatchShare = WHOLE_BATCH) -> Iterator[Batch]:
        """Every image once, without augmentation, for evaluation; or every image of the batches in a rank's share."""

    def some(self, transform: Transform, rows: Tensor, batch: int) -> Iterator[Batch]:
        """The images at some rows (a tensor on the host), without augmentation."""

    @property
    def unreadable(self) -> Mapping[int, str]:
        """By row, why an image could not be read."""

    def report_unreadable(self, reasons: Mapping[int, str]) -> None:
        """Record which images other ranks could not read; too many unreadable images stop the run."""

    @property
    def remarks(self) -> Sequence[str]:
        """What a result says about images that could not be read."""
