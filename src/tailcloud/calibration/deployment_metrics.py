"""Deployment metrics: calibration error before and after calibration, and accuracy under other class priors.

One pass over the images gives all of them. Calibrated probabilities are right for images that come with the prior which
they assume. If the images have another class mix, the calibration error is measured twice: on the images as they are,
and on images that are weighted to the assumed prior (``weighted``).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.priors import (
    Prior,
    accuracy_under,
    adjustment,
    evaluation_priors,
    importance_weights,
    prior_name,
)
from tailcloud.calibration.temperature import Floats, LogitCalibration, calibration_by_group
from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import predict_variants, to_predictions
from tailcloud.evaluation.metrics import Predictions, calibration, ece_by_chance, summarise

SAME_MIX = 0.01  # weights this close to 1 change nothing that is printed


def measure_deployment(
    network: Callable[[Tensor], Tensor],
    batches: Iterable[Batch],
    fitted: LogitCalibration,
    counts: Sequence[int],
    prior: Prior | None = None,
    *,
    frequencies: Sequence[int] | None = None,
) -> dict[str, Any]:
    """``calibrated`` and ``priors`` of a result, from test images; percent, None where there is nothing to measure.

    ``calibrated`` is for probabilities that are adjusted to ``prior``; by default they are not adjusted. Shot groups
    follow ``counts``; ``frequencies`` are those of the classes in training, if they are others.
    """
    frequencies = frequencies or counts
    priors = evaluation_priors(frequencies)
    shifts = [torch.from_numpy(adjustment(prior, fitted.prior)) for prior in priors.values()]
    wanted = None if prior is None else torch.from_numpy(adjustment(prior, fitted.prior))
    variants = [(fitted.scale, wanted), (fitted.factor, wanted), (fitted.factor, None)]
    variants += [(fitted.factor, shift) for shift in shifts]
    predictions = [to_predictions(each, len(counts)) for each in predict_variants(network, batches, variants)]
    before, after, plain, *adjusted = predictions
    accuracies = {
        name: {"plain": _accuracy(plain, counts, prior), "adjusted": _accuracy(each, counts, prior)}
        for each, (name, prior) in zip(adjusted, priors.items(), strict=True)
    }
    judged = fitted.prior if prior is None else prior
    return {
        "calibrated": _calibration(before, after, fitted, list(counts), judged, prior_name(judged, frequencies)),
        "priors": {"assumed": prior_name(fitted.prior, frequencies), **accuracies},
    }


def _accuracy(predictions: Predictions, counts: Sequence[int], prior: Prior) -> float | None:
    return accuracy_under(summarise(predictions, counts)["per_class"], prior)


def _calibration(
    before: Predictions, after: Predictions, fitted: LogitCalibration, counts: list[int], prior: Prior, name: str
) -> dict[str, Any]:
    """Expected calibration error and reliability bins before and after, of all images and of each shot group.

    ``weighted`` has the same for images that are weighted to ``prior``, which is called ``name``; None if they have
    this class mix already.
    """
    weights = importance_weights(after.target, prior)
    weighted = {
        "prior": name,
        "effective_images": float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300)),
        **_before_and_after(before, after, counts, weights),
    }
    return {
        "temperature": fitted.temperature,
        "fitted_on": fitted.fitted_on,
        "images": fitted.images,
        **_before_and_after(before, after, counts),
        "weighted": None if np.allclose(weights, 1, rtol=0, atol=SAME_MIX) else weighted,
    }


def _before_and_after(
    before: Predictions, after: Predictions, counts: list[int], weights: Floats | None = None
) -> dict[str, Any]:
    groups = {
        "before": calibration_by_group(before, counts, weights),
        "after": calibration_by_group(after, counts, weights),
    }
    return {
        **_of_all_images(after, weights),
        "by_chance": ece_by_chance(after.confidence, weights),
        "before": _of_all_images(before, weights),
        "groups": {name: {when: groups[when][name] for when in groups} for name in groups["before"]},
    }


def _of_all_images(predictions: Predictions, weights: Floats | None) -> dict[str, Any]:
    return calibration(predictions.confidence, np.equal(predictions.predicted, predictions.target), weights)
