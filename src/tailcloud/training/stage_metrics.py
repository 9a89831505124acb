"""The metrics of a stage: accuracy and softmax saturation after an epoch, all metrics at the end."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation import Predictions, confusion, summarise
from tailcloud.evaluation.paired_difference import FIGURES
from tailcloud.evaluation.saturation import class_gradients
from tailcloud.randomness import device_generator, host_generator
from tailcloud.recipe import Stage
from tailcloud.runs.checkpoint import TrainingProgress
from tailcloud.runs.observer import Observer
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

LOGGED = ("top1", "balanced_accuracy", "many", "medium", "few")
GRADIENT_BATCH = 1024  # images


def evaluate_epoch(session: Session, parts: StageParts, progress: TrainingProgress, epoch: int) -> dict[str, Any]:
    """Accuracy after an epoch, for the log; remembers the best epoch, chosen on validation if there is any."""
    counts, figure = session.dataset.profile.counts, FIGURES[session.recipe.selection.objective or "overall"]
    decisive = test = summarise(session.predict(session.inputs.test, parts.scale), counts)
    measured = {key: test[key] for key in LOGGED}
    if session.inputs.val:
        decisive = summarise(session.predict(session.inputs.val, parts.scale), counts)
        measured |= {f"val_{key}": decisive[key] for key in ("top1", "balanced_accuracy")}
    better = progress.note_best(epoch, decisive[figure], test["top1"], session.best_on)
    if better and session.recipe.selection.pick == "best":
        progress.best_weights = {name: value.clone() for name, value in session.model.state_dict().items()}
    return measured


def log_gradients(session: Session, parts: StageParts, epoch: int) -> dict[str, Any]:
    """``gradients``: for each class the mean |∂L/∂z_y| over its training images, without augmentation.

    L is the loss of the stage, with its noise, on the outputs of the model in evaluation mode.
    """
    recipe = session.recipe
    if not recipe.logging.gradients:
        return {}
    session.model.eval()
    noise = device_generator(session.device, recipe.seed, parts.name, "watched clouds", epoch)
    loss, classes = parts.objective.loss, session.dataset.classes
    return {"gradients": class_gradients(session.plain_network, _shuffled(session), loss, classes, noise)}


def _shuffled(session: Session) -> Iterator[Batch]:
    """Every training image once, in random order as in training: class weights compare the images of a batch."""
    order = host_generator(session.recipe.seed, "watched order").permutation(len(session.images.train.labels))
    return session.inputs.train_as_test.some(session.transform, torch.from_numpy(order), GRADIENT_BATCH)


def finish_stage(session: Session, progress: TrainingProgress, stage: Stage, observer: Observer) -> dict[str, Any]:
    """All metrics of the last epoch. If another epoch was picked, load its weights and add its metrics as well."""
    scale, counts = session.loss(stage).scale, session.dataset.profile.counts
    predictions = session.predict(session.inputs.test, scale)
    last = summarise(predictions, counts)
    if predictions.non_finite:
        session.findings.append(overflow(progress.stage, predictions))
        observer.note(session.findings[-1])
    best = progress.best or {"epoch": 0, "top1": last["top1"], "on": session.best_on}
    result = {
        "name": progress.stage,
        "epochs": progress.epoch,
        **last,
        "confusion": confusion(predictions, session.dataset.classes),
        "best": {**{key: best[key] for key in ("epoch", "top1", "on")}, **counted_epochs(progress.evaluated)},
        "executor": session.executor,
        "kernels": session.kernels,
        "seconds": progress.seconds,
    }
    if progress.best_weights:
        session.load_weights(progress.best_weights)
        predictions = session.predict(session.inputs.test, scale)
        result["picked"] = {"epoch": best["epoch"], "on": best["on"], **summarise(predictions, counts)}
    result["hits"] = {"test": pack_hits(predictions)}
    if session.inputs.val and session.recipe.selection.stage == "best":
        result["hits"]["val"] = pack_hits(session.predict(session.inputs.val, scale))
    return result


def counted_epochs(evaluated: int | None) -> dict[str, int]:
    """``evaluated_epochs``, among which the best one was chosen; nothing if they were not counted."""
    return {} if evaluated is None else {"evaluated_epochs": evaluated}


def pack_hits(predictions: Predictions) -> str:
    """Which images were classified correctly, a bit each, as text: so stages can be compared image by image."""
    return b64encode(np.packbits(predictions.predicted == predictions.target).tobytes()).decode()


def unpack_hits(text: str, images: int) -> NDArray[np.bool_]:
    """What ``pack_hits`` packed, for so many images."""
    return np.unpackbits(np.frombuffer(b64decode(text), np.uint8), count=images).astype(bool)


def overflow(stage: str, predictions: Predictions) -> str:
    """The remark on a model whose outputs are NaN or infinite though its loss and weights are finite."""
    return (
        f"After {stage} the model's outputs are NaN or infinite for {predictions.non_finite:,} of "
        f"{len(predictions.target):,} test images, which count as wrong; a lower {stage}.lr usually helps."
    )
