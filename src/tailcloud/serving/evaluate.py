"""A trained model, measured again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tailcloud.calibration.deployment_metrics import measure_deployment
from tailcloud.calibration.prior_file import read_prior
from tailcloud.calibration.temperature import LogitCalibration
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.placement import bring
from tailcloud.errors import UsageError
from tailcloud.evaluation import predict_variants, summarise, to_predictions
from tailcloud.serving.load import TrainedClassifier, load


def evaluate_run(run: Path, dataset: Dataset, device: torch.device, prior: str | None = None) -> dict[str, Any]:
    """Every figure of a result, for the model of a run on the test part of a data set.

    Shot groups follow the counts that the model was trained on. With a ``prior`` (``uniform``, ``train`` or a file) the
    figures are those of calibrated logits that expect this mix of classes, and so is the ECE.
    """
    model = load(run)
    check_fits(run, model, dataset)
    wanted = read_prior(prior, model.class_names, model.counts)
    classifier, images = model.classifier.to(device), bring(dataset.test, device)
    transform = Normalise(model.transform.mean, model.transform.std, device)
    way = (model.scale, None) if wanted is None else (model.scale / model.temperature, model.shift(wanted))
    judged = predict_variants(classifier, images.in_order(transform), [way])[0]
    figures = summarise(to_predictions(judged, len(model.counts)), model.counts)
    if model.prior is None:
        return figures
    calibration = LogitCalibration(model.scale, model.temperature, model.prior, model.fitted_on, None)
    return figures | measure_deployment(classifier, images.in_order(transform), calibration, model.counts)


def check_fits(run: Path, model: TrainedClassifier, dataset: Dataset) -> None:
    """Same classes in the same order, same image size and channels."""
    if list(dataset.class_names) != model.class_names:
        raise UsageError(
            f"{run} was trained on {_in_short(model.class_names)}, and {dataset.spec} has "
            f"{_in_short(dataset.class_names)}: a model can only be measured on its own classes"
        )
    trained = (*model.size, len(model.transform.mean))
    if trained != dataset.shape:
        raise UsageError(f"{run} takes images of {trained}, and those of {dataset.spec} are {dataset.shape}")


def _in_short(names: Sequence[str]) -> str:
    return f"{len(names)} classes ({names[0]} … {names[-1]})"
