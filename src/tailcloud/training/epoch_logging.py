"""What the recipe's ``[logging]`` table adds to the log of an epoch.

It is an evaluation with its own random generators and changes nothing, so the run ends with the same bits without it.
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
    return {"gradients": class_gradients(session.model, _shuffled(session), loss, classes, noise)}


def _shuffled(session: Session) -> Iterator[Batch]:
    """Every training image once, in random order as in training: class weights compare the images of a batch."""
    order = host_generator(session.recipe.seed, "watched order").permutation(len(session.images.train.labels))
    return session.images.train_as_test.some(session.transform, torch.from_numpy(order), BATCH)
