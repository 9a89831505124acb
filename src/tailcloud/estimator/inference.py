"""Calibrated probabilities of a trained model for images in memory or in files, batch by batch."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.image_io import Pixels, read_image_at_size
from tailcloud.data.loaders.resident import CPU_PIXELS
from tailcloud.data.readers.npz import resize_images
from tailcloud.errors import UsageError
from tailcloud.estimator.inputs import ArraysOrPaths
from tailcloud.serving import TrainedClassifier
from tailcloud.serving.predict import BATCH, BATCHES_AHEAD, in_threads


def probabilities(
    model: TrainedClassifier, images: ArraysOrPaths, device: torch.device, prior: ArrayLike | None
) -> NDArray[np.float64]:
    """Calibrated probabilities [N, classes]; the softmax is computed in float64, so that rows sum to 1.

    The model computes on ``device`` and is moved back to the CPU afterwards.
    """
    factor = model.scale / model.temperature
    shift = 0.0 if prior is None else model.shift(prior)
    transform, rows = Normalise(model.transform.mean, model.transform.std, device), []
    model.classifier.to(device)
    try:
        for batch in batches(model, images, device):
            with torch.inference_mode():  # not around .to(): the weights would become inference tensors
                outputs: Tensor = model.classifier(transform(torch.from_numpy(batch).to(device)))
            rows.append((factor * outputs.cpu().double() + shift).softmax(dim=1).numpy())
    finally:
        model.classifier.cpu()
    return np.concatenate(rows)


def batches(model: TrainedClassifier, images: ArraysOrPaths, device: torch.device) -> Iterator[Pixels]:
    """Batches as the model takes them, uint8 [batch, H, W, C]; threads decode files ahead."""
    channels = len(model.transform.mean)
    cached = max(16, CPU_PIXELS // (model.size[0] * model.size[1]))
    size = BATCH if device.type == "cuda" else min(BATCH, cached)
    if isinstance(images, list):
        decode = partial(read_image_at_size, channels=channels, size=model.size, fit=model.fit, keep=model.keep)
        waiting = []
        for _, image in in_threads(decode, images, BATCHES_AHEAD * size):
            waiting.append(image)
            if len(waiting) == size:
                yield np.stack(waiting)
                waiting = []
        if waiting:
            yield np.stack(waiting)
        return
    if images.shape[3] != channels:
        raise UsageError(f"X has images of {images.shape[3]} channels, and the model was fitted on {channels}")
    for start in range(0, len(images), size):
        yield resize_images(images[start : start + size], model.size, model.fit)
