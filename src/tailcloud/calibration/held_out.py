"""Held-out images: the outputs of a model for them, on which temperature and logit bias are fitted."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tailcloud.calibration.priors import Prior, adjustment, normalised
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.images import Images

MIN_HELD_OUT_IMAGES = 20  # with fewer, a fitted temperature would be mostly noise
MAX_LOGITS = 1 << 22  # one or two numbers are fitted, for which a few thousand images are enough


@dataclass(frozen=True)
class HeldOutOutputs:
    """The outputs of a model for held-out images.

    ``outputs`` is [images, classes] and ``target`` [images]. ``shift`` [classes] is log π_j − log π_a,j, with the prior
    π of these images and the prior π_a that the outputs imply; −∞ for a class without a held-out image.
    """

    outputs: NDArray[np.float64]
    target: NDArray[np.int64]
    shift: NDArray[np.float64]


@torch.inference_mode()
def predict_held_out(
    model: nn.Module, images: Images | None, transform: Normalise, implied: Prior, *, absent: float = 0.0
) -> HeldOutOutputs | None:
    """The outputs of a model with the prior ``implied`` for held-out images; None if there are fewer than 20.

    Takes all images, or evenly spaced ones up to ``MAX_LOGITS``. PyTorch's own kernels compute them, as they do when
    the model is used. A class without a held-out image counts as ``absent`` images; with 0 it is impossible.
    """
    if images is None or len(images.labels) < MIN_HELD_OUT_IMAGES:
        return None
    model.eval()
    classes, outputs, target = len(implied), [], []
    for batch in images.in_order(transform):  # one at a time: all images as floats may not fit into memory
        thinned = _thin_out(batch, classes, len(images.labels))
        outputs.append(model(thinned.images).float())
        target.append(thinned.target)
    logits, labels = torch.cat(outputs).cpu().double().numpy(), torch.cat(target).cpu().numpy()
    return HeldOutOutputs(logits, np.asarray(labels), adjustment(_prior_of(images, classes, absent), implied))


def _prior_of(images: Images, classes: int, absent: float) -> Prior:
    """The shares of the classes among the held-out images."""
    labels = images.labels.cpu().numpy()
    return normalised(np.maximum(np.bincount(labels, minlength=classes), absent))


def _thin_out(batch: Batch, classes: int, images: int) -> Batch:
    step = max(1, -(-images * classes // MAX_LOGITS))
    return Batch(batch.images[::step], batch.target[::step])
