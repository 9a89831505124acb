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
    model: TrainedClassifier, pictures: ArraysOrPaths, device: torch.device, prior: ArrayLike | None
) -> NDArray[np.float64]:
    """Calibrated probabilities [N, classes]; the softmax is computed in float64, so that rows sum to 1.

    The model computes on ``device`` and is moved back to the CPU afterwards.
    """
    factor = model.scale / model.temperature
    shift = 0.0 if prior is None else model.shift(prior)
    transform, rows = Normalise(model.transform.mean, model.transform.std, device), []
    model.classifier.to(device)
    try:
        for batch in batches(model, pictures, device):
            with torch.inference_mode():  # not around .to(): the weights would become inference tensors
                outputs: Tensor = model.classifier(transform(torch.from_numpy(batch).to(device)))
            rows.append((factor * outputs.cpu().double() + shift).softmax(dim=1).numpy())
    finally:
        model.classifier.cpu()
    return np.concatenate(rows)


def batches(model: TrainedClassifier, pictures: ArraysOrPaths, device: torch.device) -> Iterator[Pixels]:
    """Batches as the model takes them, uint8 [batch, H, W, C]; threads decode files ahead."""
    channels = len(model.transform.mean)
    cached = max(16, CPU_PIXELS // (model.size[0] * model.size[1]))
    size = BATCH if device.type == "cuda" else min(BATCH, cached)
    if isinstance(pictures, list):
        decode = partial(read_image_at_size, channels=channels, size=model.size, fit=model.fit, keep=model.keep)
        waiting = []
        for _, picture in in_threads(decode, pictures, BATCHES_AHEAD * size):
            waiting.append(picture)
            if len(waiting) == size:
                yield np.stack(waiting)
                waiting = []
        if waiting:
            yield np.stack(waiting)
        return
    if pictures.shape[3] != channels:
        raise UsageError(f"X has images of {pictures.shape[3]} channels, and the model was fitted on {channels}")
    for start in range(0, len(pictures), size):
        yield resize_images(pictures[start : start + size], model.size, model.fit)
