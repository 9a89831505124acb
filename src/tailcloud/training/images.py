"""The images of a run on their plane: on the device, or in their files."""

from functools import cached_property

import torch

from tailcloud.data import Dataset, Split
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.placement import (
    AnyImages,
    as_tested,
    automatic_workers,
    bring,
    for_resized_crops,
    is_streamed,
)
from tailcloud.data.loaders.stream import StreamImages
from tailcloud.recipe import Recipe
from tailcloud.training.distributed.world import World


class RunImages:
    """The training, test and validation images of a run, ready for batches; ``val`` is None where there are none."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        self.dataset, self.device, self.cache = dataset, device, recipe.data.cache
        self.streamed = is_streamed(dataset.train)
        self.decoders = Decoders(recipe.engine.workers or automatic_workers())
        self.train = self.bring(for_resized_crops(dataset.train) if recipe.augment.crop_area else dataset.train)
        self.test = self.bring(dataset.test)
        self.val = self.bring(as_tested(dataset.val, dataset.test)) if dataset.val else None

    def bring(self, split: Split) -> AnyImages:
        """A part of the data on its plane."""
        return bring(split, self.device, self.decoders, self.cache)

    @cached_property
    def seen(self) -> AnyImages:
        """Training images as test images are seen: nothing is varied."""
        if not self.streamed:
            return self.train
        return bring(as_tested(self.dataset.train, self.dataset.test), self.device, self.decoders)

    @property
    def remarks(self) -> list[str]:
        """What to know before the run."""
        useless = self.cache != "none" and not self.streamed
        return ["There is no use for data.cache here: all images are in memory."] if useless else []

    def share_faults(self, world: World) -> None:
        """From now on every process knows which images any of them could not read; too many of them stop the run."""
        parts = [part for part in (self.train, self.val, self.test) if isinstance(part, StreamImages)]
        met = world.gather([dict(part.unreadable) for part in parts])
        with world.one_voice():
            for found in met:
                for part, reasons in zip(parts, found, strict=True):
                    part.learn(reasons)

    @property
    def faults(self) -> list[str]:
        """What happened to images on their way to the model."""
        parts = {"Training": self.train, "Validation": self.val, "Test": self.test}
        return [f"{name}: {remark}" for name, part in parts.items() if part for remark in part.remarks]
