"""The resident plane: the whole training set is one uint8 tensor on the device, and a batch is an index into it."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailcloud.data.augment import crop_and_flip
from tailcloud.data.batch import Batch
from tailcloud.data.dataset import Split
from tailcloud.data.mixing import draw_lambdas, draw_partners, mix
from tailcloud.data.transform import Normalise
from tailcloud.randomness import host_generator
from tailcloud.sampling import Sampler


class ResidentImages:
    """A part of a data set on the device."""

    def __init__(self, split: Split, device: torch.device) -> None:
        self.images = torch.from_numpy(split.images).to(device)
        self.labels = torch.from_numpy(split.labels).to(device)

    def in_order(self, transform: Normalise, batch: int = 512) -> Iterator[Batch]:
        """Every image once, as stored, for evaluation."""
        for start in range(0, len(self.labels), batch):
            here = slice(start, start + batch)
            yield Batch(transform(self.images[here]), self.labels[here])


def batch_ends(size: int, batch: int) -> NDArray[np.int64]:
    """Where the batches of an epoch end. The last one is smaller, but never a single image: batch norm needs two."""
    ends = np.append(np.arange(batch, size, batch), size)
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        ends = np.delete(ends, -2)
    return ends


class ResidentLoader:
    """Epochs of sampled, augmented, mixed batches.

    What an epoch needs is drawn as whole arrays at its start from (seed, stage, part, epoch), on the host, so that
    every device sees the same draws; the rest is device code on whole batches.
    """

    def __init__(
        self,
        data: ResidentImages,
        sampler: Sampler,
        transform: Normalise,
        *,
        batch: int,
        crop_padding: int = 0,
        flip: bool = False,
        mixup: float = 0.0,
        seed: int = 0,
        stage: str = "stage1",
    ) -> None:
        self.data, self.sampler, self.transform = data, sampler, transform
        self.crop_padding, self.flip, self.mixup = crop_padding, flip, mixup
        self.seed, self.stage = seed, stage
        self.size = len(data.labels)
        self.ends = batch_ends(self.size, batch)

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return len(self.ends)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch; the same ones whenever that epoch is asked for."""
        order = self._to_device(self.sampler.draw(self._generator("order", number)))
        corners, flips = self._draw_views(number)
        partners, lambdas = self._draw_mixing(number)
        start = 0
        for step, end in enumerate(self.ends.tolist()):
            here = slice(start, end)
            images = self.data.images[order[here]]
            if self.crop_padding or self.flip:
                images = crop_and_flip(images, corners[here], flips[here], self.crop_padding)
            batch = Batch(self.transform(images), self.data.labels[order[here]])
            yield self._mixed(batch, partners[here] - start, lambdas[step]) if self.mixup else batch
            start = end

    def _draw_views(self, number: int) -> tuple[Tensor, Tensor]:
        generator = self._generator("views", number)
        corners = generator.integers(0, 2 * self.crop_padding, (self.size, 2), endpoint=True)
        flips = generator.random(self.size) < (0.5 if self.flip else 0.0)
        return self._to_device(corners), self._to_device(flips)

    def _draw_mixing(self, number: int) -> tuple[Tensor, Tensor]:
        if not self.mixup:
            return torch.empty(0), torch.empty(0)
        generator = self._generator("mixup", number)
        lambdas = draw_lambdas(generator, self.mixup, self.steps)
        batch_of = np.repeat(np.arange(self.steps), np.diff(self.ends, prepend=0))
        return self._to_device(draw_partners(generator, batch_of)), self._to_device(lambdas)

    @staticmethod
    def _mixed(batch: Batch, partners: Tensor, lam: Tensor) -> Batch:
        return Batch(mix(batch.images, partners, lam), batch.target, batch.target[partners], lam)

    def _generator(self, part: str, number: int) -> np.random.Generator:
        return host_generator(self.seed, self.stage, part, number)

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.data.images.device)
