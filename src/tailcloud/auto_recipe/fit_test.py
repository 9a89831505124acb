"""The fit test: whether the center of a picture is better to read than the whole of it.

The whole picture loses nothing, but shows everything smaller. Where subjects are in the middle, the center is better;
where they are small and anywhere, it cuts them off. So both are tried on a few training images, with features of the
pretrained network and nearest class means, each image left out of the mean of its class.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.auto_recipe.draft import Draft
from tailcloud.auto_recipe.timing import make_embedder
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.parallel_io import read_images
from tailcloud.data.read_options import Fit
from tailcloud.data.splits import Vector, positions_by_class
from tailcloud.evaluation.paired_difference import PairedDifference, image_weights, paired_difference
from tailcloud.training.devices import cores, using_threads
from tailcloud.training.features.embedder import Embedder
from tailcloud.training.features.views import View

SIDE = 128  # pixels
MAX_IMAGES, MAX_PER_CLASS = 300, 24
CENTER: Fit = "crop"

Features = NDArray[np.float64]


@dataclass(frozen=True)
class FitTest:
    """Balanced accuracy of class means on ``images``: before, of the whole picture; after, of its center."""

    difference: PairedDifference
    images: int

    @property
    def center_is_better(self) -> bool:
        """Whether the center is better beyond the error."""
        return self.difference.points > self.difference.error

    def evidence(self) -> str:
        """What was measured, in a few words."""
        whole, center = f"{self.difference.before:.1f}", f"{self.difference.after:.1f}"
        return (
            f"on {self.images:,} images class means of features reach {center} % with the center and {whole} % with "
            f"the whole, ± {self.difference.error:.1f}"
        )


def run_fit_test(draft: Draft) -> FitTest | None:
    """Compare both on some training images of a pretrained draft; None if too few of them can be read."""
    split, fit = draft.dataset.train, draft.candidate.fit
    if not isinstance(split.images, FileImages) or fit is None:
        return None
    rows = some_of_each_class(split.labels, draft.dataset.classes)
    files = replace(split.images[rows], side=SIDE)
    (whole, broken), (center, _) = (read_images(replace(files, fit=each)) for each in (fit, CENTER))
    readable = np.delete(np.arange(len(rows)), list(broken))
    target = split.labels[rows][readable]
    enough = readable[np.bincount(target)[target] > 1]
    if not len(enough):
        return None
    target = split.labels[rows][enough]
    embedder = make_embedder(draft.one_epoch, draft.dataset, SIDE, torch.device("cpu"))  # a GPU prepares for longer
    before, after = (class_mean_hits(unit_features(embedder, images[enough]), target) for images in (whole, center))
    weights = image_weights(target, draft.dataset.profile.counts, "balanced")
    return FitTest(paired_difference(target, before, after, weights), len(target))


def some_of_each_class(labels: Vector, classes: int) -> Vector:
    """Some images of each class, about ``MAX_IMAGES`` in all, but two of each class that has two."""
    random, each = np.random.RandomState(0), max(2, min(MAX_PER_CLASS, MAX_IMAGES // classes))
    return np.concatenate([random.permutation(rows)[:each] for rows in positions_by_class(labels, classes)])


def unit_features(embedder: Embedder, images: Pixels) -> Features:
    """Features of unit length [N, D]."""
    with using_threads(cores()):
        starts = range(0, len(images), embedder.batch)
        batches = [torch.from_numpy(images[start : start + embedder.batch]).to(embedder.device) for start in starts]
        features = torch.cat([embedder(batch, View()).cpu() for batch in batches]).double().numpy()
    unit: Features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return unit


def class_mean_hits(features: Features, target: Vector) -> NDArray[np.bool_]:
    """Which images are nearest, by cosine, to the mean of their own class; an image does not count in that mean."""
    classes, label = np.unique(target, return_inverse=True)
    sums = np.zeros((len(classes), features.shape[1]))
    np.add.at(sums, label, features)
    cosines = features @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T
    without = sums[label] - features
    own = np.einsum("nd,nd->n", features, without) / np.maximum(np.linalg.norm(without, axis=1), 1e-12)
    cosines[np.arange(len(label)), label] = -np.inf
    hits: NDArray[np.bool_] = own > cosines.max(axis=1)
    return hits
