"""Where the images of a split go: onto the device, or they stay in their files. The only place that decides this."""

from dataclasses import replace

import torch

from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.cache import cached
from tailcloud.data.loaders.decoder_pool import Decoders, automatic_workers
from tailcloud.data.loaders.images import Images
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.data.loaders.stream import StreamImages

MARGIN = 256 / 224  # how much larger images are read that are cropped later


def place_images(split: Split, device: torch.device, decoders: Decoders | None = None, cache: str = "none") -> Images:
    """The images of a split, ready for batches: on the device, or read from files or a cache when they are needed.

    ``cache`` is a folder, "ram" or "none".
    """
    if not isinstance(split.images, FileImages):
        return ResidentImages(split, device)
    decoders = decoders or Decoders(automatic_workers())
    reader = None if cache == "none" else cached(split.images, split.labels, decoders, cache)
    return StreamImages(split, device, decoders, reader)


def uncropped(split: Split) -> Split:
    """Training images in files, read for random crops: the complete image, squashed, and a little larger."""
    if not isinstance(split.images, FileImages):
        return split
    side = round(split.images.side * MARGIN)
    return replace(split, images=replace(split.images, side=side, fit="squash", keep=1.0))


def resized_like(split: Split, test: Split) -> Split:
    """A split whose image files are resized as those of the test split; a split in memory is returned unchanged."""
    if not isinstance(split.images, FileImages) or not isinstance(test.images, FileImages):
        return split
    tested = test.images
    images = replace(split.images, side=tested.side, fit=tested.fit, keep=tested.keep, channels=tested.channels)
    return replace(split, images=images)
