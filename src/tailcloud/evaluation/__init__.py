"""Evaluation of classifiers: predictions, the metrics of a result, embeddings and softmax saturation."""

from tailcloud.evaluation.metrics import Predictions, confusion, summarise
from tailcloud.evaluation.predict import (
    DevicePredictions,
    predict,
    predict_on_device,
    predict_variants,
    to_predictions,
)

__all__ = [
    "DevicePredictions",
    "Predictions",
    "confusion",
    "predict",
    "predict_on_device",
    "predict_variants",
    "summarise",
    "to_predictions",
]
