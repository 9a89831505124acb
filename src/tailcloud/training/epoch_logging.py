"""What a recipe's ``[logging]`` table asks for after an epoch, for the log.

Watching is an evaluation: it draws from generators of its own and changes nothing, so that a run which is watched ends
bit for bit where it would have ended.
"""

from collections.abc import Iterator
from typing import Any

import torch

from tailcloud.data.loaders.batch import Batch
from tailcloud.evaluation.saturation import class_gradients
from tailcloud.randomness import device_generator, host_generator
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

BATCH = 1024


def watch(session: Session, parts: StageParts, epoch: int) -> dict[str, Any]:
    """``gradients``: for each class the mean |∂L/∂z_y| over its training images, as they are stored.

    L is the loss of the stage as it stands, clouds included, on the outputs of the model in evaluation mode.
    """
    recipe = session.recipe
    if not recipe.logging.gradients:
        return {}
    session.model.eval()
    clouds = device_generator(session.device, recipe.seed, parts.name, "watched clouds", epoch)
    loss, classes = parts.objective.loss, session.dataset.classes
    return {"gradients": class_gradients(session.model, _mixed(session), loss, classes, clouds)}


def _mixed(session: Session) -> Iterator[Batch]:
    """Every training image once, classes mixed as in training: class weights compare the images of a batch."""
    order = host_generator(session.recipe.seed, "watched order").permutation(len(session.images.train.labels))
    return session.images.seen.some(session.transform, torch.from_numpy(order), BATCH)
