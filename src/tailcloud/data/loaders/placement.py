"""Two planes of data, one face: images that are on the device, and images that stay in their files."""

import os
from dataclasses import replace

import torch

from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.cache_fill import cached
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.data.loaders.stream import StreamImages

AnyImages = ResidentImages | StreamImages

MARGIN = 256 / 224  # how much larger images are stored that are cropped later


def is_streamed(split: Split) -> bool:
    """Whether images stay in their files."""
    return isinstance(split.images, FileImages)


def bring(split: Split, device: torch.device, decoders: Decoders | None = None, cache: str = "none") -> AnyImages:
    """A part of a data set on its plane: on the device, or read when it is shown, by processes or from a cache.

    ``cache`` is a folder, "ram" or "none".
    """
    if not isinstance(split.images, FileImages):
        return ResidentImages(split, device)
    decoders = decoders or Decoders(automatic_workers())
    reader = None if cache == "none" else cached(split.images, split.labels, decoders, cache)
    return StreamImages(split, device, decoders, reader)


def automatic_workers() -> int:
    """How many processes read: one a core, of those that this process has for itself on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def for_resized_crops(split: Split) -> Split:
    """Training images in files as random resized crops want them: whole, squashed, and a little larger."""
    if not isinstance(split.images, FileImages):
        return split
    side = round(split.images.side * MARGIN)
    return replace(split, images=replace(split.images, side=side, fit="squash", keep=1.0))


def as_tested(split: Split, test: Split) -> Split:
    """A part whose images are brought to the model in the way of those of the test part."""
    if not isinstance(split.images, FileImages) or not isinstance(test.images, FileImages):
        return split
    tested = test.images
    images = replace(split.images, side=tested.side, fit=tested.fit, keep=tested.keep, channels=tested.channels)
    return replace(split, images=images)
