"""Two-dimensional maps of an embedding: which images to draw, and their t-SNE positions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.evaluation.embeddings import Vectors
from tailcloud.profile import FEW_BELOW

PERPLEXITY = 30.0


@dataclass(frozen=True)
class DrawnImages:
    """The indices of the images to draw, and the most images of one class."""

    positions: NDArray[np.int64]
    per_class: int


def choose_classes(counts: ArrayLike, most: int) -> NDArray[np.int64]:
    """At most ``most`` classes with images, evenly from the most frequent to the rarest, both included."""
    n = np.asarray(counts)
    order = np.argsort(-n, kind="stable")[: int((n > 0).sum())]
    return order if len(order) <= most else order[np.round(np.linspace(0, len(order) - 1, most)).astype(int)]


def choose_images(labels: NDArray[np.int64], classes: NDArray[np.int64], budget: int, seed: int) -> DrawnImages:
    """About ``budget`` images of these classes: the same number of each, at random, and all of a few-shot class."""
    per_class = max(FEW_BELOW, budget // len(classes))
    random = np.random.default_rng(seed)
    kept = []
    for label in np.sort(classes):
        members = np.flatnonzero(labels == label)
        kept.append(members if len(members) <= per_class else np.sort(random.choice(members, per_class, replace=False)))
    return DrawnImages(np.concatenate(kept), per_class)


def project(features: Vectors, seed: int) -> Vectors:
    """t-SNE (van der Maaten & Hinton, JMLR 2008) onto two dimensions: [images, 2], centred, within −1 … 1.

    It starts from the two principal components, so that a seed changes little.
    """
    from sklearn.manifold import TSNE

    if len(features) < 5:  # too few for t-SNE
        return _framed(np.pad(features, ((0, 0), (0, 2)))[:, :2])
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    flat = np.pad(features, ((0, 0), (0, max(0, 2 - features.shape[1]))))
    drawn = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed).fit_transform(flat)
    return _framed(drawn.astype(np.float64))


def align_map(points: Vectors, towards: Vectors) -> Vectors:
    """A map, rotated and perhaps reflected so that its points are as near as possible to those of another map.

    The axes of t-SNE have no meaning; this makes maps of the same images easy to compare (orthogonal
    Procrustes, Schönemann 1966).
    """
    left, _, right = np.linalg.svd(points.T @ towards)
    return _framed(points @ left @ right)


def _framed(points: Vectors) -> Vectors:
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    centred: Vectors = points - middle
    return centred / (np.abs(centred).max() or 1.0)
