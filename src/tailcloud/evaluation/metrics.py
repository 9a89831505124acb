"""Metrics: accuracy by class and by shot group, calibration error and confusion.

All are computed from a few vectors with one entry per image, so memory is linear in images, not images × classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcloud.profile import shot_groups

BINS = 15
MAX_PAIRS = 100_000  # of classes in a stored confusion matrix


@dataclass(frozen=True)
class Predictions:
    """For each image: true class, predicted class, its probability, and whether the true class is in the top k."""

    target: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: NDArray[np.float64]
    in_top_k: NDArray[np.bool_]
    top_k: int

    @property
    def non_finite(self) -> int:
        """The number of images with NaN outputs; only these have confidence 0."""
        return int((self.confidence == 0).sum())

    @classmethod
    def joined(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """The predictions of several ranks, concatenated."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.confidence for part in parts]),
            np.concatenate([part.in_top_k for part in parts]),
            parts[0].top_k,
        )


def summarise(predictions: Predictions, counts: ArrayLike) -> dict[str, Any]:
    """All metrics of a result, in percent; None where there is nothing to measure.

    ``counts`` are the training images per class, which define the shot groups. The accuracy of a group is the mean over
    its classes with test images.
    """
    classes = len(np.asarray(counts))
    target, predicted = predictions.target, predictions.predicted
    correct = predicted == target
    images = np.bincount(target, minlength=classes)
    hits = np.bincount(target[correct], minlength=classes)
    per_class = np.divide(100.0 * hits, images, out=np.full(classes, np.nan), where=images > 0)
    groups = {name: _mean(per_class[members]) for name, members in shot_groups(counts).items()}
    return {
        "top1": 100 * float(correct.mean()),
        "top5": 100 * float(predictions.in_top_k.mean()),
        "top_k": predictions.top_k,
        "balanced_accuracy": _mean(per_class),
        "macro_f1": macro_f1(images, hits, np.bincount(predicted, minlength=classes)),
        **groups,
        "per_class": _listed(per_class),
        **calibration(predictions.confidence, correct),
    }


def macro_f1(images: NDArray[np.int64], hits: NDArray[np.int64], predictions: NDArray[np.int64]) -> float | None:
    """The mean F1 over classes with test images: F1 = 2·hits / (images of the class + predictions of it)."""
    return _mean(100 * 2 * hits[images > 0] / (images + predictions)[images > 0])


def calibration(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """Expected calibration error over 15 equal bins (Guo et al., ICML 2017), and the bins for a reliability diagram.

    ECE = Σ_b |Σ_{i in b} w_i · (correct_i − confidence_i)| / Σ_i w_i, with the weight w_i of an image, 1 by default.
    Confidence and accuracy of a bin are weighted means; ``count`` is its number of images. The ECE is None if there are
    images and all weights are 0.
    """
    w = np.ones(len(confidence)) if weights is None else weights
    which = _confidence_bins(confidence)
    count, weight = np.bincount(which, minlength=BINS), np.bincount(which, weights=w, minlength=BINS)
    confidence_sum = np.bincount(which, weights=w * confidence, minlength=BINS)
    correct_sum = np.bincount(which, weights=w * correct, minlength=BINS)
    total = float(w.sum()) if len(w) else 1.0
    bins = [
        {"count": int(n), "confidence": float(s / v) if v else None, "accuracy": float(r / v) if v else None}
        for n, v, s, r in zip(count, weight, confidence_sum, correct_sum, strict=True)
    ]
    return {
        "ece": 100 * float(np.abs(correct_sum - confidence_sum).sum() / total) if total else None,
        "reliability": bins,
    }


def ece_by_chance(confidence: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float | None:
    """About the ECE that a perfectly calibrated model would have on these images, because they are few.

    If image i is correct with probability p_i, its confidence, the gap of a bin has the variance Σ w_i² p_i (1 − p_i);
    the mean absolute value of a normal variable is √(2/π) times its standard deviation.
    """
    w = np.ones(len(confidence)) if weights is None else weights
    variance = np.bincount(_confidence_bins(confidence), weights=w**2 * confidence * (1 - confidence), minlength=BINS)
    total = float(w.sum())
    return 100 * float(np.sqrt(2 / np.pi * variance).sum() / total) if total else None


def _confidence_bins(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    bins: NDArray[np.int64] = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    return bins


def confusion(predictions: Predictions, classes: int, limit: int = MAX_PAIRS) -> list[list[int]]:
    """[true class, predicted class, images] for every pair that occurs.

    If there are more than ``limit`` pairs, only the most frequent errors are kept: the per-class accuracy holds the
    rest, and 100,000 classes may have ten billion pairs.
    """
    pairs, images = np.unique(predictions.target * classes + predictions.predicted, return_counts=True)
    true, predicted = np.divmod(pairs, classes)
    triples = np.stack([true, predicted, images], axis=1)
    if len(triples) > limit:
        errors = triples[true != predicted]
        most = np.argsort(-errors[:, 2], kind="stable")[:limit]
        triples = errors[np.sort(most)]
    rows: list[list[int]] = triples.tolist()
    return rows


def _mean(values: NDArray[np.float64]) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else None


def _listed(values: NDArray[np.float64]) -> list[float | None]:
    items = values.astype(object)
    items[np.isnan(values)] = None
    listed: list[float | None] = items.tolist()
    return listed
