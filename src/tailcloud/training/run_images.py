"""The images of a run: training, test and validation split, each where ``place_images`` puts it."""

from functools import cached_property

import torch

from tailcloud.data import Dataset, Split
from tailcloud.data.loaders.decoder_pool import Decoders, automatic_workers
from tailcloud.data.loaders.images import Images
from tailcloud.data.loaders.placement import place_images, resized_like, uncropped
from tailcloud.errors import UsageError
from tailcloud.recipe import Recipe
from tailcloud.training.distributed.world import World


def check_views(recipe: Recipe, dataset: Dataset) -> None:
    """Image files are read once for all views: uncropped for random resized crops, else at the model's size."""
    first, further = recipe.augment, recipe.view_augment
    if further and dataset.train.streamed and further.needs_uncropped != first.needs_uncropped:
        has, lacks = ("view_augment", "augment") if further.needs_uncropped else ("augment", "view_augment")
        raise UsageError(
            f"{has}.crop_area needs uncropped images and [{lacks}] does not, and all views of image files are read "
            f"alike; set {lacks}.crop_area too (and {lacks}.crop_padding = 0), or leave both out"
        )


class RunImages:
    """The training, test and validation images of a run, ready for batches; ``val`` is None without validation."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        self.dataset, self.device, self.cache = dataset, device, recipe.data.cache
        self.decoders = Decoders(recipe.engine.workers or automatic_workers())
        check_views(recipe, dataset)
        train = uncropped(dataset.train) if recipe.augment.needs_uncropped else dataset.train
        self.train = self.place(train)
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

    def share_unreadable(self, world: World) -> None:
        """Report the images that any rank could not read to all ranks; too many of them stop the run."""
        splits = [split for split in (self.train, self.val, self.test) if split]
        unreadable = world.gather([dict(split.unreadable) for split in splits])
        with world.rank0_errors():
            for of_rank in unreadable:
                for split, reasons in zip(splits, of_rank, strict=True):
                    split.report_unreadable(reasons)

    @property
    def unreadable_remarks(self) -> list[str]:
        """What a result says about images that could not be read."""
        train = self.train if self.train.remarks or "train_as_test" not in vars(self) else self.train_as_test
        splits = {"Training": train, "Validation": self.val, "Test": self.test}
        return [f"{name}: {remark}" for name, split in splits.items() if split for remark in split.remarks]
