"""How good is a classifier? One pass over images gives every figure of a result."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation.metrics import Predictions, confusion, summarise

__all__ = ["Judged", "Predictions", "confusion", "gathered", "judge", "judge_in_ways", "predict", "summarise"]

TOP_K = 5


Judged = tuple[Tensor, Tensor, Tensor, Tensor]


def predict(model: Classifier, batches: Iterable[Batch], scale: float) -> Predictions:
    """What the model says about every image: softmax of ``scale`` times its clean outputs, running statistics.

    The model is left in evaluation mode.
    """
    model.eval()
    return gathered(judge(model, batches, scale), model.classes)


@torch.inference_mode()
def judge(network: Callable[[Tensor], Tensor], batches: Iterable[Batch], scale: float) -> Judged:
    """Per image: its class, the predicted one, the confidence in that, and how many classes beat the true one.

    All of it stays on the device.
    """
    return _joined([_judge(scale * network(batch.images).float(), batch.target) for batch in batches])


@torch.inference_mode()
def judge_in_ways(
    network: Callable[[Tensor], Tensor], batches: Iterable[Batch], ways: Sequence[tuple[float, Tensor | None]]
) -> list[Judged]:
    """The same for several ways (factor, shift) to make logits of outputs, factor · outputs + shift, in one pass."""
    judged = [_judge_in_ways(network(batch.images).float(), batch.target, ways) for batch in batches]
    return [_joined(list(found)) for found in zip(*judged, strict=True)]


def _judge_in_ways(outputs: Tensor, target: Tensor, ways: Sequence[tuple[float, Tensor | None]]) -> list[Judged]:
    return [
        _judge(factor * outputs if shift is None else (factor * outputs).add_(shift.to(outputs)), target)
        for factor, shift in ways
    ]


def _joined(judged: list[Judged]) -> Judged:
    if not judged:  # a share of nothing
        whole = torch.zeros(0, dtype=torch.int64)
        return whole, whole, torch.zeros(0), whole.int()
    target, predicted, confidence, rank = (torch.cat(column) for column in zip(*judged, strict=True))
    return target, predicted, confidence, rank


def gathered(judged: Judged, classes: int) -> Predictions:
    """What was judged, for counting. Outputs that are no numbers are no answer: wrong, and without confidence."""
    target, predicted, confidence, rank = (column.cpu().numpy() for column in judged)
    top_k, lost = min(TOP_K, classes), np.isnan(confidence)
    predicted = np.where(lost, (target + 1) % classes, predicted)
    return Predictions(
        target, predicted, np.where(lost, 0.0, confidence.astype(np.float64)), (rank < top_k) & ~lost, top_k
    )


def _judge(logits: Tensor, target: Tensor) -> Judged:
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    rank = (logits > logits.gather(1, target[:, None])).sum(dim=1, dtype=torch.int32)  # int64 takes twice the logits
    return target, predicted, confidence, rank
