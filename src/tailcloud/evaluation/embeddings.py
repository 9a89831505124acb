"""Embeddings (the features before the head), and the spread of the classes in them.

Two-dimensional maps of an embedding can mislead; these measures use all its dimensions.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn import functional as F  # noqa: N812

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.profile import shot_groups

Vectors = NDArray[np.float64]
CHUNK = 1024  # points compared with all centres at a time


@dataclass(frozen=True)
class Embedding:
    """``features`` [images, dimensions] and ``labels`` [images]; ``normalised``: all features have length 1."""

    features: Vectors
    labels: NDArray[np.int64]
    normalised: bool = False


@torch.inference_mode()
def embed(model: Classifier, batches: Iterable[Batch]) -> Embedding:
    """The features of every image: with length 1 for a cosine head, unchanged for any other.

    The model is left in evaluation mode.
    """
    model.eval()
    features, labels, cosine = [], [], bool(model.head.cosine)
    for batch in batches:
        found = model.features(batch.images).cpu().double()
        features.append(F.normalize(found, dim=1) if cosine else found)
        labels.append(batch.target.cpu())
    return Embedding(torch.cat(features).numpy(), torch.cat(labels).numpy(), cosine)


@dataclass(frozen=True)
class Spread:
    """Two lengths for every class; NaN if there are too few images.

    ``within``: √(Σ‖f − μ_c‖² / (n_c − 1)), the standard deviation of the images of a class around their centre μ_c.
    Its expectation does not depend on the number of images.
    ``between``: ‖μ_c − μ_k‖ to the nearest centre of another class.
    """

    within: Vectors
    between: Vectors

    @property
    def overlap(self) -> Vectors:
        """``within`` over ``between``: above 1 the classes overlap. It has no unit."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Vectors = self.within / self.between
        return np.where(np.isfinite(share), share, np.nan)

    def divided(self, unit: float) -> "Spread":
        """The same lengths in another unit."""
        return Spread(self.within / unit, self.between / unit)


def spread(embedding: Embedding, classes: int) -> Spread:
    """The spread of every class of an embedding."""
    images = np.bincount(embedding.labels, minlength=classes)
    centres = _centres(embedding, images)
    away = ((embedding.features - centres[embedding.labels]) ** 2).sum(axis=1)
    squares = np.bincount(embedding.labels, weights=away, minlength=classes)
    within = np.full(classes, np.nan)
    several = images > 1
    within[several] = np.sqrt(squares[several] / (images[several] - 1))
    return Spread(within, _nearest(centres))


def nearest_centre_accuracy(embedding: Embedding, train: Embedding, classes: int) -> Vectors:
    """For every class, the percentage of its images that are nearer to its own training centre than to any other.

    NaN for a class without images; 0 for a class without training images.
    """
    images, trained = (np.bincount(part.labels, minlength=classes) for part in (embedding, train))
    present = np.flatnonzero(trained)
    centres = torch.from_numpy(_centres(train, trained)[present])
    features = torch.from_numpy(embedding.features)
    nearest = [torch.cdist(some, centres).argmin(dim=1) for some in torch.split(features, CHUNK)]
    right = present[torch.cat(nearest).numpy()] == embedding.labels
    hits = np.bincount(embedding.labels[right], minlength=classes)
    share: Vectors = np.divide(100.0 * hits, images, out=np.full(classes, np.nan), where=images > 0)
    return share


def centre_distance(embedding: Embedding, classes: int) -> float:
    """The root mean square distance between the centres of two classes: a unit of length for any scale of features.

    It is 1 if there are fewer than two classes, or if they coincide.
    """
    centres = _centres(embedding, np.bincount(embedding.labels, minlength=classes))
    present = centres[~np.isnan(centres[:, 0])]
    if len(present) < 2:
        return 1.0
    return float(np.sqrt(2 * ((present - present.mean(axis=0)) ** 2).sum() / (len(present) - 1))) or 1.0


def by_group(values: Vectors, counts: ArrayLike) -> dict[str, float | None]:
    """The mean over the classes of each shot group and over "all"; None where nothing was measured."""
    members = {**shot_groups(counts), "all": np.arange(len(values))}
    measured = {name: values[which][~np.isnan(values[which])] for name, which in members.items()}
    return {name: float(known.mean()) if len(known) else None for name, known in measured.items()}


def _centres(embedding: Embedding, images: NDArray[np.int64]) -> Vectors:
    """The mean feature of each class, NaN for a class without images."""
    sums = np.zeros((len(images), embedding.features.shape[1]))
    np.add.at(sums, embedding.labels, embedding.features)
    return np.where(images[:, None] > 0, sums / np.maximum(images, 1)[:, None], np.nan)


def _nearest(centres: Vectors) -> Vectors:
    """The distance from each centre to the nearest other one; NaN if either is missing."""
    nearest = np.full(len(centres), np.nan)
    present = np.flatnonzero(~np.isnan(centres[:, 0]))
    there = torch.from_numpy(centres[present])
    for start in range(0, len(present) if len(present) > 1 else 0, CHUNK):
        here = there[start : start + CHUNK]
        away = torch.cdist(here, there, compute_mode="donot_use_mm_for_euclid_dist")
        away[torch.arange(len(here)), torch.arange(start, start + len(here))] = torch.inf
        nearest[present[start : start + CHUNK]] = away.min(dim=1).values.numpy()
    return nearest
