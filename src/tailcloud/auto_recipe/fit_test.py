"""The fit test: whether the center of a picture is better to read than the whole of it.

The whole picture loses nothing, but shows everything smaller. Where subjects are in the middle, the center is better;
where they are small and anywhere, it cuts them off. So both are tried on a few training images, with features of the
pretrained network and nearest class means, each image left out of the mean of its class.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.auto_recipe.draft import Draft
from tailcloud.auto_recipe.timing import FasterThreads, make_embedder
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.parallel_io import read_images
from tailcloud.data.read_options import Fit
from tailcloud.data.splits import Vector, positions_by_class
from tailcloud.evaluation.paired_difference import PairedDifference, image_weights, paired_difference
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


def run_fit_test(draft: Draft, seconds: float | None) -> FitTest | None:
    """Compare both on some training images of a pretrained draft; None if too few of them can be read.

    After so many ``seconds`` those that were compared have to be enough; None: all of them are compared.
    """
    split, fit = draft.dataset.train, draft.candidate.fit
    if not isinstance(split.images, FileImages) or fit is None:
        return None
    began, rows = time.perf_counter(), some_of_each_class(split.labels, draft.dataset.classes)
    embedder = make_embedder(draft.one_epoch, draft.dataset, SIDE, torch.device("cpu"))  # a GPU prepares for longer
    faster, target, features = FasterThreads(), list[Vector](), dict[Fit, list[Features]]({fit: [], CENTER: []})
    for start in range(0, len(rows), embedder.batch):
        if start and seconds is not None and time.perf_counter() - began > seconds:
            break
        some = rows[start : start + embedder.batch]
        for each in features:
            images, broken = read_images(replace(split.images[some], side=SIDE, fit=each))
            readable = np.delete(np.arange(len(some)), list(broken))
            with faster.threads():
                features[each].append(unit_features(embedder, images[readable]))
        target.append(split.labels[some][readable])
    whole, center = (np.concatenate(features[each]) for each in (fit, CENTER))
    return compare_fits(np.concatenate(target), whole, center, draft.dataset.profile.counts)


def compare_fits(target: Vector, whole: Features, center: Features, counts: Vector) -> FitTest | None:
    """Compare features of the same images; None if no class has two of them."""
    enough = np.flatnonzero(np.bincount(target, minlength=1)[target] > 1)
    if not len(enough):
        return None
    before, after = (class_mean_hits(features[enough], target[enough]) for features in (whole, center))
    weights = image_weights(target[enough], counts, "balanced")
    return FitTest(paired_difference(target[enough], before, after, weights), len(enough))


def some_of_each_class(labels: Vector, classes: int) -> Vector:
    """Some images of each class, about ``MAX_IMAGES`` in all, but two of each class that has two.

    Two of each class come first, then two more of each, so that a part of them has all classes too.
    """
    random, each = np.random.RandomState(0), max(2, min(MAX_PER_CLASS, MAX_IMAGES // classes))
    drawn = [random.permutation(rows)[:each] for rows in positions_by_class(labels, classes)]
    rank = np.concatenate([np.arange(len(rows)) // 2 for rows in drawn])
    return np.concatenate(drawn)[np.argsort(rank, kind="stable")]


def unit_features(embedder: Embedder, images: Pixels) -> Features:
    """Features of unit length [N, D] of a batch."""
    features = embedder(torch.from_numpy(images).to(embedder.device), View()).cpu().double().numpy()
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
