"""The images of a run: training, test and validation split, each where ``place_images`` puts it."""

from functools import cached_property

import torch

from tailcloud.data import Dataset, Split
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.images import Images
from tailcloud.data.loaders.placement import automatic_workers, place_images, resized_like, stored_for_crops
from tailcloud.recipe import Recipe
from tailcloud.training.distributed.world import World


class RunImages:
    """The training, test and validation images of a run, ready for batches; ``val`` is None without validation."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        self.dataset, self.device, self.cache = dataset, device, recipe.data.cache
        self.decoders = Decoders(recipe.engine.workers or automatic_workers())
        self.train = self.place(stored_for_crops(dataset.train) if recipe.augment.crop_area else dataset.train)
        self.test = self.place(dataset.test)
        self.val = self.place(resized_like(dataset.val, dataset.test)) if dataset.val else None

    def place(self, split: Split) -> Images:
        """The images of a split, on the device or in their files or cache."""
        return place_images(split, self.device, self.decoders, self.cache)

    @cached_property
    def train_as_test(self) -> Images:
        """The training images, resized as test images are, for evaluation."""
        split = resized_like(self.dataset.train, self.dataset.test)
        if split is self.dataset.train:
            return self.train
        return place_images(split, self.device, self.decoders)

    @property
    def remarks(self) -> list[str]:
        """What a user should know before the run."""
        useless = self.cache != "none" and not self.dataset.train.streamed
        return ["data.cache is not used: all images are in memory."] if useless else []

    def share_faults(self, world: World) -> None:
        """Tell all ranks which images any rank could not read; too many of them stop the run."""
        parts = [part for part in (self.train, self.val, self.test) if part]
        unreadable = world.gather([dict(part.unreadable) for part in parts])
        with world.rank0_errors():
            for of_rank in unreadable:
                for part, reasons in zip(parts, of_rank, strict=True):
                    part.report_unreadable(reasons)

    @property
    def faults(self) -> list[str]:
        """What a result says about images that could not be read."""
        parts = {"Training": self.train, "Validation": self.val, "Test": self.test}
        return [f"{name}: {remark}" for name, part in parts.items() if part for remark in part.remarks]
