"""Images in files, and the same in memory, for tests of the stream loader."""

import numpy as np
import torch
from PIL import Image

from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.decoder_pool import Decoders
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.data.loaders.stream import StreamImages, StreamLoader
from tailcloud.data.packed_names import Names
from tailcloud.sampling import make_sampler

CPU = torch.device("cpu")
SIDE, CLASSES = 6, 3
LEVELS = Normalise([0.0] * 3, [1 / 255] * 3)  # pixels as they are stored
DECODERS = Decoders(2)  # for all tests, since processes take a moment to start


def files(root, count=30, side=SIDE, seed=0):
    """Losslessly stored noise: a split with its images in files, and the same one in memory."""
    root.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), np.uint8)
    names = [f"{number}.png" for number in range(count)]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(root / name)
    labels = np.sort(np.arange(count) % CLASSES)
    return Split(FileImages(root, Names.of(names), side), labels), Split(pixels, labels)


def loaders(root, sampler="ib", count=30, **options):
    """A streamed loader, and a resident one with the same pixels."""
    streamed, resident = files(root, count)
    settings = {"batch": 8, "seed": 5, "epochs": 4} | options
    transform = Normalise([0.4] * 3, [0.2] * 3)
    sampling = make_sampler(sampler, resident.labels, CLASSES)
    return (
        StreamLoader(StreamImages(streamed, CPU, DECODERS), sampling, transform, **settings),
        ResidentLoader(ResidentImages(resident, CPU), sampling, transform, **settings),
    )


def shown(images):
    """All images in order, as they are stored."""
    batches = [batch.images for batch in images.in_order(LEVELS)]
    return torch.cat(batches).round().to(torch.uint8).permute(0, 2, 3, 1)


def tensors(batch):
    """Everything in a batch that is a tensor."""
    own = [batch.images, batch.target, batch.other, batch.lam, *batch.views, batch.whole, batch.other_whole]
    return [each for each in own if each is not None] + (tensors(batch.second) if batch.second else [])


def same(one, other):
    """Whether two batches are the same bit for bit."""
    pairs = zip(tensors(one), tensors(other), strict=True)
    return one.place == other.place and all(torch.equal(a, b) for a, b in pairs)
