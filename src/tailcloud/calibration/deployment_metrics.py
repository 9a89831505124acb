"""Deployment metrics: calibration error before and after calibration, and accuracy under other class priors.

One pass over the images gives all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.priors import Prior, accuracy_under, adjustment, evaluation_priors, prior_name
from tailcloud.calibration.temperature import LogitCalibration, calibration_by_group
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import predict_variants, to_predictions
from tailcloud.evaluation.metrics import Predictions, calibration, summarise


def measure_deployment(
    network: Callable[[Tensor], Tensor], batches: Iterable[Batch], fitted: LogitCalibration, counts: Sequence[int]
) -> dict[str, Any]:
    """``calibrated`` and ``priors`` of a result, from test images; percent, None where there is nothing to measure."""
    priors = evaluation_priors(counts)
    shifts = [torch.from_numpy(adjustment(prior, fitted.prior)) for prior in priors.values()]
    variants = [(fitted.scale, None), (fitted.factor, None), *((fitted.factor, shift) for shift in shifts)]
    predictions = [to_predictions(each, len(counts)) for each in predict_variants(network, batches, variants)]
    before, after, *adjusted = predictions
    accuracies = {
        name: {"plain": _accuracy(after, counts, prior), "adjusted": _accuracy(each, counts, prior)}
        for each, (name, prior) in zip(adjusted, priors.items(), strict=True)
    }
    return {
        "calibrated": _calibration(before, after, fitted, list(counts)),
        "priors": {"assumed": prior_name(fitted.prior, counts), **accuracies},
    }


def _accuracy(predictions: Predictions, counts: Sequence[int], prior: Prior) -> float | None:
    return accuracy_under(summarise(predictions, counts)["per_class"], prior)


def _calibration(
    before: Predictions, after: Predictions, fitted: LogitCalibration, counts: list[int]
) -> dict[str, Any]:
    """Expected calibration error and reliability bins before and after, of all images and of each shot group."""
    groups = {"before": calibration_by_group(before, counts), "after": calibration_by_group(after, counts)}
    return {
        "temperature": fitted.temperature,
        "fitted_on": fitted.fitted_on,
        "images": fitted.images,
        **_of_all_images(after),
        "before": _of_all_images(before),
        "groups": {name: {when: groups[when][name] for when in groups} for name in groups["before"]},
    }


def _of_all_images(predictions: Predictions) -> dict[str, Any]:
    return calibration(predictions.confidence, np.equal(predictions.predicted, predictions.target))
