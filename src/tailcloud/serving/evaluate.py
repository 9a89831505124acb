"""A trained model, measured again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tailcloud.data import Dataset
from tailcloud.data.resident import ResidentImages
from tailcloud.data.transform import Normalise
from tailcloud.errors import UsageError
from tailcloud.evaluation import predict, summarise
from tailcloud.serving.load import TrainedClassifier, load


def evaluate_run(run: Path, dataset: Dataset, device: torch.device) -> dict[str, Any]:
    """Every figure of a result, for the model of a run on the test part of a data set.

    Shot groups follow the counts that the model was trained on.
    """
    model = load(run)
    check_fits(run, model, dataset)
    transform = Normalise(model.transform.mean, model.transform.std, device)
    batches = ResidentImages(dataset.test, device).in_order(transform)
    return summarise(predict(model.classifier.to(device), batches, model.scale), model.counts)


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
