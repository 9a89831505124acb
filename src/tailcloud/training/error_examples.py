"""Test images that the finished model got wrong, small and few, so that a report can show them without the data."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor
from torch.nn.functional import interpolate

from tailcloud.evaluation import Predictions
from tailcloud.files import FORMAT, write_atomically
from tailcloud.profile import worst_tail
from tailcloud.runs.folder import RunFolder
from tailcloud.training.session import Session

EACH = 6  # images of a class
SIDE = 64  # pixels of the longer side of a thumbnail, at most


def write_examples(session: Session, folder: RunFolder, per_class: Sequence[float | None]) -> None:
    """Write ``examples.safetensors``: ``images`` [N, H, W, C], and the ``true`` and ``predicted`` class of each [N].

    They are the surest errors in the worst tail classes by ``per_class``, of the weights that are kept; less than a
    megabyte in all. Nothing is written where there are none, or where the recipe says ``logging.examples = false``.
    """
    worst = worst_tail(session.dataset.profile.counts.tolist(), per_class) if session.recipe.logging.examples else []
    if not worst:
        return
    last = list(session.recipe.stages.values())[-1]
    predictions = session.predict(session.images.test, session.loss(last).scale)
    if not session.world.rank0:
        return
    wrong = np.concatenate([surest_errors(predictions, label) for label in worst])
    images, chosen = session.dataset.test.some(wrong)
    content = {
        "images": thumbnails(torch.from_numpy(images)).numpy(),
        "true": predictions.target[chosen],
        "predicted": predictions.predicted[chosen],
    }
    write_atomically(folder.examples_file, save(content, {"format": str(FORMAT)}))


def surest_errors(predictions: Predictions, label: int) -> NDArray[np.int64]:
    """Where the images of a class are that were taken for another, those first that the model was surest of."""
    wrong = np.flatnonzero((predictions.target == label) & (predictions.predicted != label))
    return wrong[np.argsort(-predictions.confidence[wrong], kind="stable")[:EACH]]


def thumbnails(images: Tensor) -> Tensor:
    """Images [N, H, W, C] of at most ``SIDE`` pixels: each pixel the mean of those that it stands for."""
    height, width = images.shape[1:3]
    factor = SIDE / max(height, width)
    if factor >= 1 or not len(images):
        return images
    size = [max(1, round(side * factor)) for side in (height, width)]
    small = interpolate(images.permute(0, 3, 1, 2).float(), size=size, mode="area")
    return small.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
