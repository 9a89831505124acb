"""Which images a run keeps, so that its report can show them without the data."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from tailcloud.data import Dataset
from tailcloud.evaluation import Predictions
from tailcloud.profile import Counts, class_order, worst_tail
from tailcloud.runs.examples_file import KINDS, MAX_SEEN, SEEN_SIDE, RunExamples, write_run_examples
from tailcloud.runs.folder import RunFolder
from tailcloud.training.session import Session

Positions = NDArray[np.int64]

ERRORS_PER_CLASS = 6  # of the worst classes
LISTED = 12  # most confident errors, and least certain images
SAMPLES = 128  # of all classes together
SAMPLES_PER_CLASS = 3
SIDE = 64  # pixels of the longer side of a thumbnail, at most
THUMBNAIL_BYTES = 1_500_000
SEEN_BYTES = MAX_SEEN * SEEN_SIDE**2 * 3


def write_examples(session: Session, folder: RunFolder, per_class: Sequence[float | None]) -> None:
    """Write ``examples.safetensors``, with the predictions of the kept weights; none with ``logging.examples = false``.

    ``per_class`` are accuracies. The file has at most 2.2 MB: 1.5 MB of thumbnails and 0.6 MB of images in full size.
    """
    if not session.recipe.logging.examples:
        return
    last = list(session.kept_recipe.stages.values())[-1]
    predictions = session.predict(session.inputs.test, session.loss(last).scale)
    if session.world.rank0:
        examples = choose_examples(session.dataset, predictions, per_class)
        write_run_examples(folder.examples_file, examples, session.dataset.classes)


def choose_examples(dataset: Dataset, predictions: Predictions, per_class: Sequence[float | None]) -> RunExamples:
    """The images of each kind: errors of the worst tail classes, confident errors, uncertain images, samples."""
    train, counts = dataset.train.labels, dataset.profile.counts
    worst = [errors_of_class(predictions, label) for label in worst_tail(counts.tolist(), per_class)]
    chosen = [
        np.concatenate([np.zeros(0, np.int64), *worst]),
        most_confident(predictions, wrong_images(predictions))[:LISTED],
        least_certain(predictions),
    ]
    read = [dataset.test.some(positions) for positions in chosen]
    tested = np.concatenate([positions for _, positions in read])
    samples, sampled = dataset.train.some(class_samples(train, counts))
    seen, where = dataset.train.some(class_samples(train, counts, per_class=1, limit=MAX_SEEN))
    return RunExamples(
        images=thumbnails(np.concatenate([*(images for images, _ in read), samples]), SIDE, THUMBNAIL_BYTES),
        true=np.concatenate([predictions.target[tested], train[sampled]]),
        predicted=np.concatenate([predictions.predicted[tested], train[sampled]]),
        confidence=np.concatenate([predictions.confidence[tested], np.zeros(len(sampled))]).astype(np.float32),
        kind=np.repeat(np.arange(len(KINDS)), [*(len(positions) for _, positions in read), len(sampled)]),
        seen=thumbnails(seen, SEEN_SIDE, SEEN_BYTES),
        seen_true=train[where],
    )


def wrong_images(predictions: Predictions) -> Positions:
    """The misclassified images."""
    return np.flatnonzero(predictions.predicted != predictions.target)


def errors_of_class(predictions: Predictions, label: int) -> Positions:
    """The misclassified images of a class, the most confident errors first."""
    wrong = wrong_images(predictions)
    return most_confident(predictions, wrong[predictions.target[wrong] == label])[:ERRORS_PER_CLASS]


def most_confident(predictions: Predictions, positions: Positions) -> Positions:
    """Some images, the most confident predictions first."""
    return positions[np.argsort(-predictions.confidence[positions], kind="stable")]


def least_certain(predictions: Predictions) -> Positions:
    """The images with the lowest confidence, right or wrong, the least certain first; not those with NaN outputs."""
    finite = np.flatnonzero(predictions.confidence > 0)
    return most_confident(predictions, finite)[::-1][:LISTED]


def class_samples(
    labels: NDArray[np.int64], counts: Counts, *, per_class: int = SAMPLES_PER_CLASS, limit: int = SAMPLES
) -> Positions:
    """A few images of each class, from the most frequent one to the rarest, spread over the images of the class.

    Fewer of each, then one of some classes, evenly spread by frequency, if all would be more than ``limit``.
    """
    present = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    if len(present) > limit:
        present = present[np.linspace(0, len(present) - 1, limit).round().astype(int)]
    each = max(1, min(per_class, limit // len(present)))
    order, starts = class_order(labels, len(counts)), np.cumsum(counts) - counts
    places = [
        starts[label] + np.unique(np.linspace(0, counts[label] - 1, each + 2).round().astype(np.int64)[1:-1])[:each]
        for label in present.tolist()
    ]
    chosen: Positions = order[np.concatenate(places)]
    return chosen


def thumbnails(images: NDArray[np.uint8], side: int, most_bytes: int) -> NDArray[np.uint8]:
    """Images [N, H, W, C] scaled down by area averaging, to at most so many pixels a side and bytes together."""
    count, height, width, channels = images.shape
    fitting = math.sqrt(most_bytes / max(1, count * height * width * channels))
    factor = min(1.0, side / max(height, width), fitting)
    if factor == 1 or not count:
        return images
    size = [max(1, math.floor(edge * factor + 1e-9)) for edge in (height, width)]
    small = interpolate(torch.from_numpy(images).permute(0, 3, 1, 2).float(), size=size, mode="area")
    return small.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
