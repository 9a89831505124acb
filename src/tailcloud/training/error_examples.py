"""Which misclassified test images a run keeps, so that its report can show them without the data."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from tailcloud.evaluation import Predictions
from tailcloud.profile import worst_tail
from tailcloud.runs.examples_file import ErrorExamples, write_error_examples
from tailcloud.runs.folder import RunFolder
from tailcloud.training.session import Session

IMAGES_PER_CLASS = 6
SIDE = 64  # pixels of the longer side of a thumbnail, at most


def write_examples(session: Session, folder: RunFolder, per_class: Sequence[float | None]) -> None:
    """Write ``examples.safetensors``: the most confident errors of the kept weights in the worst tail classes.

    ``per_class`` are accuracies. The file has less than a megabyte. None is written if there are no such classes, or
    with ``logging.examples = false``.
    """
    worst = worst_tail(session.dataset.profile.counts.tolist(), per_class) if session.recipe.logging.examples else []
    if not worst:
        return
    last = list(session.kept_recipe.stages.values())[-1]
    predictions = session.predict(session.inputs.test, session.loss(last).scale)
    if not session.world.rank0:
        return
    wrong = np.concatenate([most_confident_errors(predictions, label) for label in worst])
    images, chosen = session.dataset.test.some(wrong)
    small = thumbnails(torch.from_numpy(images)).numpy()
    examples = ErrorExamples(small, predictions.target[chosen], predictions.predicted[chosen])
    write_error_examples(folder.examples_file, examples, session.dataset.classes)


def most_confident_errors(predictions: Predictions, label: int) -> NDArray[np.int64]:
    """The indices of the misclassified images of a class, the most confident errors first."""
    wrong = np.flatnonzero((predictions.target == label) & (predictions.predicted != label))
    return wrong[np.argsort(-predictions.confidence[wrong], kind="stable")[:IMAGES_PER_CLASS]]


def thumbnails(images: Tensor) -> Tensor:
    """Images [N, H, W, C] scaled down to at most ``SIDE`` pixels by area averaging."""
    height, width = images.shape[1:3]
    factor = SIDE / max(height, width)
    if factor >= 1 or not len(images):
        return images
    size = [max(1, round(side * factor)) for side in (height, width)]
    small = interpolate(images.permute(0, 3, 1, 2).float(), size=size, mode="area")
    return small.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
