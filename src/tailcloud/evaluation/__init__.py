"""How good is a classifier? One pass over images gives every figure of a result."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from tailcloud.classifier import Classifier
from tailcloud.data.batch import Batch
from tailcloud.evaluation.metrics import Predictions, confusion, summarise

__all__ = ["Judged", "Predictions", "confusion", "gathered", "judge", "predict", "summarise"]

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
    judged = [_judge(scale * network(batch.images).float(), batch.target) for batch in batches]
    target, predicted, confidence, rank = (torch.cat(column) for column in zip(*judged, strict=True))
    return target, predicted, confidence, rank


def gathered(judged: Judged, classes: int) -> Predictions:
    """What was judged, for counting."""
    target, predicted, confidence, rank = (column.cpu().numpy() for column in judged)
    top_k = min(TOP_K, classes)
    return Predictions(target, predicted, confidence.astype(np.float64), rank < top_k, top_k)


def _judge(logits: Tensor, target: Tensor) -> Judged:
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    rank = (logits > logits.gather(1, target[:, None])).sum(dim=1, dtype=torch.int32)  # int64 takes twice the logits
    return target, predicted, confidence, rank
