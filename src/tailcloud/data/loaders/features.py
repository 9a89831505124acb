"""Features instead of images: those of a frozen backbone are on the device, and a batch is an index into them.

Batches have features [batch, D] where those of images have pixels. Mixup mixes features.
"""

from collections.abc import Iterator
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from tailcloud.data.augment.base import Draws
from tailcloud.data.augment.normalize import Normalise, Transform
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.resident import DeviceImages, DeviceLoader
from tailcloud.sampling import Sampler

EVALUATION_BATCH = 1024  # images


class FeatureImages(DeviceImages):
    """The features of a split on the device: ``features`` [views, N, D] as float16, ``labels`` [N].

    View 0 is the image as it is evaluated. No method uses its ``transform``: the images are normalised already.
    """

    kind: ClassVar[str] = "features"

    def __init__(self, features: Tensor, labels: Tensor) -> None:
        self.features, self.labels = features, labels
        self.flat = features.flatten(end_dim=1)  # view v of image i is row v · N + i

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self.features.device

    def loader(self, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of a stage."""
        return FeatureLoader(self, sampler, transform, **options)

    def in_order(self, transform: Normalise, share: BatchShare = WHOLE_BATCH) -> Iterator[Batch]:  # noqa: ARG002
        """View 0 of every image, for evaluation; or of every image of the batches in a rank's share."""
        starts = range(0, len(self.labels), EVALUATION_BATCH)
        for start in (starts[number] for bounds in share.bounds(0, len(starts)) for number in range(*bounds)):
            here = slice(start, start + EVALUATION_BATCH)
            yield Batch(self.features[0, here].float(), self.labels[here])

    def some(self, transform: Transform, rows: Tensor, batch: int) -> Iterator[Batch]:  # noqa: ARG002
        """View 0 of the images at some rows (a tensor on the host)."""
        for here in torch.split(rows.to(self.device), batch):
            yield Batch(self.features[0, here].float(), self.labels[here])


class FeatureLoader(DeviceLoader[FeatureImages]):
    """Batches of features: an epoch draws one of the views for each of its images."""

    def draw_plan(self, number: int) -> EpochPlan:
        """Every draw of an epoch, on the host."""
        order = self.sampler.draw(self._generator("order", number), self.progress(number))
        views = self._generator(self.views, number).integers(0, len(self.data.features), self.size)
        return EpochPlan(torch.from_numpy(order), Draws({"views": torch.from_numpy(views)}), *self._draw_mixing(number))

    def rows(self, plan: EpochPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The features at some rows of an epoch, and their classes."""
        chosen = plan.order[rows]
        flat = plan.draws["views"][rows] * len(self.data.labels) + chosen
        return self.data.flat[flat].float(), self.data.labels[chosen]
