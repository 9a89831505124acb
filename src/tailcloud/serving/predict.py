"""Predict the classes of image files. Threads decode them while the model computes; memory is bounded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tailcloud.calibration.priors import Prior
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.image_io import ImageArray, Unreadable, read_image_at_size
from tailcloud.data.loaders.resident import evaluation_batch
from tailcloud.errors import TailcloudError
from tailcloud.serving.load import TrainedClassifier
from tailcloud.training.devices import cores
from tailcloud.training.features.batch_norm_folding import folded_for, images_at_once

BATCH = 256
BATCHES_AHEAD = 4  # batches that are decoded while one is computed
NOT_FINITE = "the outputs of the model are NaN or infinite"

Decoded = ImageArray | str  # the image at the size of the model, or why it cannot be read


@dataclass(frozen=True)
class FilePrediction:
    """The prediction for one file: its ``top`` classes with calibrated probabilities, or the ``error``."""

    path: Path
    top: tuple[tuple[str, float], ...] = ()
    error: str | None = None

    def is_sure(self, threshold: float) -> bool:
        """Whether the probability of the top class reaches the threshold."""
        return bool(self.top) and self.top[0][1] >= threshold


def predict_files(
    model: TrainedClassifier,
    paths: Iterable[Path],
    *,
    device: torch.device | str = "cpu",
    top: int = 1,
    prior: Prior | None = None,
) -> Iterator[FilePrediction]:
    """One prediction per path, in order; for a file that cannot be read, it has an error.

    Raises:
        TailcloudError: the outputs of the model are NaN or infinite for every image, so its weights are damaged.
    """
    predict = BatchPredictor(model, torch.device(device), top, prior)
    batch = min(BATCH, evaluation_batch(predict.device, model.size[0] * model.size[1]))
    decode = partial(_decoded, channels=len(model.transform.mean), model=model)
    waiting: list[tuple[Path, Decoded]] = []
    for pair in in_threads(decode, paths, BATCHES_AHEAD * batch):
        waiting.append(pair)
        if len(waiting) == batch:
            yield from predict(waiting)
            waiting = []
    yield from predict(waiting)


def _decoded(path: Path, channels: int, model: TrainedClassifier) -> Decoded:
    """The image of a file, or why it cannot be read."""
    try:
        return read_image_at_size(path, channels, model.size, model.fit, model.keep)
    except Unreadable as error:
        return error.why
    except (OSError, ValueError) as error:  # a name that no file can have
        return str(error)


def in_threads(work: Callable[[Path], Decoded], paths: Iterable[Path], ahead: int) -> Iterator[tuple[Path, Decoded]]:
    """``(path, work(path))`` in order; at most ``ahead`` paths are decoded in advance."""
    pool = ThreadPoolExecutor(max(2, cores()))
    waiting: deque[tuple[Path, Future[Decoded]]] = deque()
    try:
        for path in paths:
            waiting.append((path, pool.submit(work, path)))
            if len(waiting) == ahead:
                first, result = waiting.popleft()
                yield first, result.result()
        for first, result in waiting:
            yield first, result.result()
    finally:
        pool.shutdown(cancel_futures=True)


class BatchPredictor:
    """Predicts batches on a device, with logits adjusted to ``prior``."""

    def __init__(self, model: TrainedClassifier, device: torch.device, top: int, prior: Prior | None) -> None:
        self.device, self.names = device, model.class_names
        self.worked = False  # whether any image had finite outputs
        self.top = min(top, len(self.names))
        self.classifier: nn.Module = model.classifier.to(device)
        self.transform = Normalise(model.transform.mean, model.transform.std, device)
        self.at_once = BATCH
        if device.type == "cpu":
            shape = (*model.size, len(model.transform.mean))
            self.classifier = folded_for(self.classifier, self.transform, shape)
            self.at_once = images_at_once(model.size[0] * model.size[1])
        self.factor = model.scale / model.temperature
        self.shift = None if prior is None else model.shift(prior).to(device, torch.float32)

    def __call__(self, decoded: list[tuple[Path, Decoded]]) -> Iterator[FilePrediction]:
        """The predictions for a batch, in order."""
        images = [image for _, image in decoded if not isinstance(image, str)]
        found = self.top_classes(np.stack(images)) if images else []
        self.worked = self.worked or any(found)
        if images and not self.worked:
            raise TailcloudError(
                f"{NOT_FINITE} for all {len(images):,} images: its weights are damaged; copy the run folder again, or "
                "train it again"
            )
        tops = iter(found)
        for path, image in decoded:
            top = () if isinstance(image, str) else next(tops)
            yield FilePrediction(path, top, error=None if top else image if isinstance(image, str) else NOT_FINITE)

    @torch.inference_mode()
    def top_classes(self, images: ImageArray) -> list[tuple[tuple[str, float], ...]]:
        """The top classes of uint8 images [batch, H, W, C], with their probabilities; none if these are NaN."""
        normalised = self.transform(torch.from_numpy(images).to(self.device))
        outputs = [self.classifier(some).float() for some in torch.split(normalised, self.at_once)]
        logits: Tensor = self.factor * torch.cat(outputs)
        if self.shift is not None:
            logits = logits + self.shift
        values, classes = logits.softmax(dim=1).topk(self.top, dim=1)
        return [
            tuple((self.names[c], p) for c, p in zip(row, probabilities, strict=True) if isfinite(p))
            for row, probabilities in zip(classes.tolist(), values.tolist(), strict=True)
        ]
