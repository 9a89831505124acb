"""Predictions of a classifier: one pass over the images of a split."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation.metrics import Predictions
from tailcloud.flat_copy import to_cpu

TOP_K = 5

# [images] each: the true class, the predicted class, its probability, and how many classes have a larger logit than the
# true one
DevicePredictions = tuple[Tensor, Tensor, Tensor, Tensor]


def predict(model: Classifier, batches: Iterable[Batch], scale: float) -> Predictions:
    """The predictions for every image: softmax of ``scale`` times the outputs, with running batch-norm statistics.

    The model is left in evaluation mode.
    """
    model.eval()
    return to_predictions(predict_on_device(model, batches, scale), model.classes)


@torch.inference_mode()
def predict_on_device(network: Callable[[Tensor], Tensor], batches: Iterable[Batch], scale: float) -> DevicePredictions:
    """The predictions of a network for every image, still on the device."""
    return _concatenate([_predict(scale * network(batch.images).float(), batch.target) for batch in batches])


@torch.inference_mode()
def predict_variants(
    network: Callable[[Tensor], Tensor], batches: Iterable[Batch], variants: Sequence[tuple[float, Tensor | None]]
) -> list[DevicePredictions]:
    """The same for several variants of the logits, factor · outputs + shift for each (factor, shift), in one pass."""
    batches_of_variants = [
        _predict_variants(network(batch.images).float(), batch.target, variants) for batch in batches
    ]
    return [_concatenate(list(parts)) for parts in zip(*batches_of_variants, strict=True)]


def _predict_variants(
    outputs: Tensor, target: Tensor, variants: Sequence[tuple[float, Tensor | None]]
) -> list[DevicePredictions]:
    return [
        _predict(factor * outputs if shift is None else (factor * outputs).add_(shift.to(outputs)), target)
        for factor, shift in variants
    ]


def _concatenate(parts: list[DevicePredictions]) -> DevicePredictions:
    if not parts:  # a process whose share of the images is empty
        empty = torch.zeros(0, dtype=torch.int64)
        return empty, empty, torch.zeros(0), empty.int()
    target, predicted, confidence, rank = (torch.cat(column) for column in zip(*parts, strict=True))
    return target, predicted, confidence, rank


def to_predictions(predictions: DevicePredictions, classes: int) -> Predictions:
    """Predictions on the CPU, for metrics. NaN outputs count as a wrong prediction with confidence 0."""
    target, predicted, confidence, rank = (column.numpy() for column in to_cpu(predictions))
    top_k, failed = min(TOP_K, classes), np.isnan(confidence)
    predicted = np.where(failed, (target + 1) % classes, predicted)
    return Predictions(
        target, predicted, np.where(failed, 0.0, confidence.astype(np.float64)), (rank < top_k) & ~failed, top_k
    )


def _predict(logits: Tensor, target: Tensor) -> DevicePredictions:
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    rank = (logits > logits.gather(1, target[:, None])).sum(dim=1, dtype=torch.int32)  # int64 takes twice the logits
    return target, predicted, confidence, rank
