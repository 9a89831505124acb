"""Confident learning (Northcutt, Jiang & Chuang, JAIR 2021): labels that held-out predictions contradict.

p_i is the probability of the label of image i, by a model that was not trained on it. The threshold of class j is the
mean of p_i over the n_j images with this label, so that a class on which the model is always unsure gets a low one:

    t_j = (Σ_{i labelled j} p_i + a·m) / (n_j + a),   m = mean of all p_i

Image i is a suspect if its most probable class k is not its label, and has a probability of at least min(t_k, 1/2).

Three things differ from the paper:

- The mean over a class of four images says little, so t_j is drawn towards the mean of all images, with the weight of
  a = 4 images. a = 0 is the paper's threshold.
- A probability above 1/2 is always enough. In classes that are easy t_j is near 1, and would hide an image whose label
  has a probability of 0.05 because that of another class is only 0.9.
- Suspects are ordered by p_i, the lowest first, and not by the margin between both probabilities: wrong labels come
  earlier (``benchmarks/wrong_labels.py``).

A class without images in the other folds cannot be judged: its images are no suspects.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int64]
Probabilities = NDArray[np.float64]

PRIOR_IMAGES = 4  # a
HIGHEST_THRESHOLD = 0.5


@dataclass(frozen=True)
class HeldOutPredictions:
    """For each image, by a model that was not trained on it.

    Args:
        label_probability: the probability of its label.
        predicted: the most probable class.
        probability: the probability of that class.
        judged: whether the model was trained on other images with this label.
    """

    label_probability: Probabilities
    predicted: Vector
    probability: Probabilities
    judged: NDArray[np.bool_]


def thresholds(label_probability: Probabilities, labels: Vector, classes: int) -> Probabilities:
    """t_j for each class."""
    images = np.bincount(labels, minlength=classes)
    total = np.bincount(labels, weights=label_probability, minlength=classes)
    return np.asarray((total + PRIOR_IMAGES * label_probability.mean()) / (images + PRIOR_IMAGES))


def find_suspects(predictions: HeldOutPredictions, labels: Vector, classes: int) -> Vector:
    """The images whose label is probably wrong, those with the least probable label first."""
    needed = thresholds(predictions.label_probability, labels, classes)
    needed = np.minimum(needed, HIGHEST_THRESHOLD)[predictions.predicted]
    contradicted = (predictions.predicted != labels) & (predictions.probability >= needed)
    suspects = np.flatnonzero(contradicted & predictions.judged)
    return suspects[np.argsort(predictions.label_probability[suspects], kind="stable")]
