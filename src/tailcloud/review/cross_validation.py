"""Predictions for every image by a head that was not trained on it: cross-validation on features.

The features are those of published weights, which have not seen these labels: of the weights that the run started from,
or else of EfficientNet-Lite0. The run's own network would not do: it was trained on the labels, and repeats wrong ones.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from tailcloud.auto_recipe.candidates import PRETRAINED_BACKBONE, SMALLEST_FULL_SIDE
from tailcloud.auto_recipe.head_trial import FoldSession, folds_of
from tailcloud.auto_recipe.pretrained_draft import HEAD_ALONE, head_batch, head_epochs
from tailcloud.data import Dataset, Split
from tailcloud.data.loaders.features import FeatureImages
from tailcloud.data.splits import Vector
from tailcloud.errors import TailcloudError, TailcloudWarning
from tailcloud.recipe import Recipe
from tailcloud.recipe.resolve import resolve
from tailcloud.review.confident_learning import HeldOutPredictions
from tailcloud.training.devices import using_threads
from tailcloud.training.session import Session
from tailcloud.weights.resolve import PRETRAINED, resolve_weights

FOLDS = 5  # a class of four images then loses one of them at a time
METHOD = "ce"  # balanced softmax found fewer wrong labels, in tail classes too


def head_recipe(recipe: Recipe, images: int, side: int) -> Recipe:
    """The recipe of a linear head on features of published weights, for the data of a run.

    Args:
        recipe: that of the run.
        images: how many there are.
        side: pixels a side at which the run reads them.
    """
    model, size = features_of(recipe), recipe.data.size
    as_the_run = model == {"backbone": recipe.model.backbone, "weights": recipe.model.weights}
    if not as_the_run and side < SMALLEST_FULL_SIDE:
        size = SMALLEST_FULL_SIDE  # the network has not learned from smaller images
    batch = head_batch(images)
    data = recipe.data.model_dump(exclude_none=True) | ({"size": size} if size else {})
    stage = {**HEAD_ALONE, "batch": batch, "epochs": head_epochs(images, batch)}
    table = {"method": METHOD, "root": recipe.root, "data": data, "model": model, "stage1": stage}
    return resolve({**table, "selection": {"split": recipe.selection.split}}, "the review")


def features_of(recipe: Recipe) -> dict[str, str]:
    """Backbone and weights whose features are used: those that the run started from, if they are published and here."""
    model = recipe.model
    if model.pretrained and model.width == 1:
        try:
            found = resolve_weights(model.backbone, model.pretrained, recipe.root, sha256=model.weights_sha256)
        except TailcloudError:
            pass
        else:
            if found.source != "file":  # a file may come from an earlier run on the same labels
                return {"backbone": model.backbone, "weights": model.pretrained}
    return {"backbone": PRETRAINED_BACKBONE, "weights": PRETRAINED}


def predict_held_out(
    recipe: Recipe, dataset: Dataset, device: torch.device, together: Vector, note: Callable[[str], None]
) -> HeldOutPredictions:
    """Train ``FOLDS`` heads, each without one fold, and predict that fold.

    Args:
        recipe: that of ``head_recipe``.
        dataset: its data. The images are numbered through training, validation and test split.
        device: where to compute.
        together: a number for each image; images with the same number are in one fold.
        note: receives a sentence about the features of each split.
    """
    with using_threads(torch.get_num_threads()):  # a session sets them
        session = Session(recipe, dataset, device)
        session.note = note
        whole = _all_features(session)
        labels = whole.labels.cpu().numpy()
        folds = _folds(labels, dataset.classes, together)
        predictions = HeldOutPredictions(*(np.zeros(len(labels), kind) for kind in (float, np.int64, float, bool)))
        for number in range(FOLDS):
            aside = folds == number
            if aside.any() and not aside.all():
                _predict_fold(FoldSession(session, recipe, whole, aside), aside, predictions)
    return predictions


def _folds(labels: Vector, classes: int, together: Vector) -> Vector:
    """The fold of each image; images that belong together follow the first of them."""
    _, first, member = np.unique(together, return_index=True, return_inverse=True)
    return np.asarray(folds_of(labels, classes, FOLDS)[first][member])


def _all_features(session: Session) -> FeatureImages:
    """The features of all images, which then are the training split of the session."""
    session.enter_stage("stage1")
    features = session.features
    assert features is not None  # the stage has views
    splits = [split for split in (features.train, features.val, features.test) if split]
    whole = FeatureImages(
        torch.cat([split.features[:1] for split in splits], dim=1), torch.cat([split.labels for split in splits])
    )
    nothing = np.empty((len(whole.labels), 0), np.uint8)
    session.dataset = replace(session.dataset, train=Split(nothing, whole.labels.cpu().numpy()))
    return whole


def _predict_fold(fold: FoldSession, aside: np.ndarray, predictions: HeldOutPredictions) -> None:
    """Train on the other folds, and fill in the predictions for this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailcloudWarning)  # a fold may lack a class
        fold.train()
    held, outputs = fold.fold.test, []
    with torch.inference_mode():
        for batch in held.in_order(fold.transform):
            probabilities = fold.head_network(batch.images).softmax(dim=1).double()
            label = probabilities.gather(1, batch.target[:, None])[:, 0]
            outputs.append([each.cpu().numpy() for each in (label, *probabilities.max(dim=1))])
    label_probability, probability, predicted = (np.concatenate(column) for column in zip(*outputs, strict=True))
    predictions.label_probability[aside] = label_probability
    predictions.predicted[aside] = predicted
    predictions.probability[aside] = probability
    predictions.judged[aside] = np.isin(held.labels.cpu().numpy(), fold.dataset.train.labels)
