"""Run the model of a run folder over a data set: evaluate it again, or compute embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tailcloud.calibration.deployment_metrics import measure_deployment
from tailcloud.calibration.prior_file import read_prior
from tailcloud.calibration.temperature import LogitCalibration
from tailcloud.confidence_interval import effective_images, wilson_interval
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.decoder_pool import Decoders, automatic_workers
from tailcloud.data.loaders.placement import place_images, resized_like
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.evaluation import Predictions, predict_variants, summarise, to_predictions
from tailcloud.evaluation.embeddings import Embedding, embed
from tailcloud.formatting import composed
from tailcloud.serving.load import TrainedClassifier, load


def evaluate_run(run: Path, dataset: Dataset, device: torch.device, prior: str | None = None) -> dict[str, Any]:
    """Every figure of a result, for the model of a run on the test split of a data set; a dict, for JSON."""
    return evaluate_model(run, load(run), dataset, device, prior)[0]


def evaluate_model(
    run: Path, model: TrainedClassifier, dataset: Dataset, device: torch.device, prior: str | None = None
) -> tuple[dict[str, Any], Predictions]:
    """The same for a model that is loaded already, and the predictions that the figures are of.

    Shot groups follow the training counts of the model. With a ``prior`` (``uniform``, ``train`` or a file), all
    figures are those of calibrated logits adjusted to this class prior. ``images`` is the number of images,
    ``test_counts`` the number of each class in ``class_names``, and ``intervals`` has 95 % intervals.

    Raises:
        TailcloudError: the outputs are NaN for every image.
    """
    check_fits(run, model, dataset)
    wanted = read_prior(prior, model.class_names, model.frequencies)
    classifier, images = model.classifier.to(device), place_images(dataset.test, device)
    transform = Normalise(model.transform.mean, model.transform.std, device)
    scale_and_shift = (model.scale, None) if wanted is None else (model.scale / model.temperature, model.shift(wanted))
    predicted = predict_variants(classifier, images.in_order(transform), [scale_and_shift])[0]
    predictions = to_predictions(predicted, len(model.counts))
    remarks = [*dataset.remarks, *_not_finite(run, predictions), *images.remarks]
    figures = summarise(predictions, model.counts)
    figures |= _sample_sizes(dataset, figures) | {"remarks": remarks}
    if model.prior is not None:
        calibration = LogitCalibration(model.scale, model.temperature, model.prior, model.fitted_on, None)
        batches, counts = images.in_order(transform), model.counts
        figures |= measure_deployment(classifier, batches, calibration, counts, wanted, frequencies=model.frequencies)
    return figures, predictions


def _not_finite(run: Path, predictions: Predictions) -> list[str]:
    """A remark on outputs that are NaN; an error if all of them are."""
    lost, images = predictions.non_finite, len(predictions.target)
    if lost == images:
        raise TailcloudError(
            f"the outputs of {run} are NaN or infinite for all {images:,} images: its weights are damaged; copy the "
            "run folder again, or train it again"
        )
    remark = f"The outputs are NaN or infinite for {lost:,} of {images:,} images, which count as wrong."
    return [remark] if lost else []


def _sample_sizes(dataset: Dataset, figures: dict[str, Any]) -> dict[str, Any]:
    """How many images the figures are of, and 95 % intervals that follow from that."""
    counts = np.bincount(dataset.test.labels, minlength=dataset.classes).tolist()
    sizes = {"top1": len(dataset.test), "balanced_accuracy": effective_images(counts)}
    return {
        "images": len(dataset.test),
        "class_names": list(dataset.class_names),
        "test_counts": counts,
        "intervals": {key: list(wilson_interval(figures[key], images)) for key, images in sizes.items()},
    }


def embed_run(run: Path, dataset: Dataset, device: torch.device) -> dict[str, Embedding]:
    """The embeddings of all "train" and "test" images, without augmentation."""
    model = load(run)
    check_fits(run, model, dataset)
    classifier, transform = model.classifier.to(device), Normalise(model.transform.mean, model.transform.std, device)
    splits = {"train": resized_like(dataset.train, dataset.test), "test": dataset.test}
    decoders = Decoders(automatic_workers())
    return {
        name: embed(classifier, place_images(split, device, decoders).in_order(transform))
        for name, split in splits.items()
    }


def check_fits(run: Path, model: TrainedClassifier, dataset: Dataset) -> None:
    """Refuse data that differ from the model in classes, their order, image size or channels.

    A model may be older than names whose accents have one form.
    """
    if list(map(composed, dataset.class_names)) != list(map(composed, model.class_names)):
        raise UsageError(
            f"{run} was trained on {_class_range(model.class_names)}, and {dataset.spec} has "
            f"{_class_range(dataset.class_names)}: a model can only be used on its own classes"
        )
    trained = (*model.size, len(model.transform.mean))
    if trained != dataset.shape:
        raise UsageError(
            f"{run} takes images of {trained} (height, width, channels), and those of {dataset.spec} are "
            f"{dataset.shape}"
        )


def _class_range(names: Sequence[str]) -> str:
    return f"{len(names)} classes ({names[0]} … {names[-1]})"
