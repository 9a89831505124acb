"""What a trained model says about image files: decoded by threads while it computes, in bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.priors import Prior
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.image_io import ImageArray, Unreadable, read_image_at_size
from tailcloud.data.loaders.resident import images_at_once
from tailcloud.serving.load import TrainedClassifier
from tailcloud.training.devices import cores

BATCH = 256
BATCHES_AHEAD = 4  # that are decoded, or on their way, while one is computed

Decoded = ImageArray | str  # as the model takes it, or why there is none


@dataclass(frozen=True)
class Answer:
    """What the model says about a file: its likeliest classes with calibrated probabilities, or why it says nothing."""

    path: Path
    top: tuple[tuple[str, float], ...] = ()
    error: str | None = None

    def sure(self, threshold: float) -> bool:
        """Whether the likeliest class is at least that probable."""
        return bool(self.top) and self.top[0][1] >= threshold


def predict_files(
    model: TrainedClassifier,
    paths: Iterable[Path],
    *,
    device: torch.device | str = "cpu",
    top: int = 1,
    prior: Prior | None = None,
) -> Iterator[Answer]:
    """One answer per path, in their order. What cannot be read gets an answer with an error, and stops nothing."""
    speak = Speaker(model, torch.device(device), top, prior)
    batch = min(BATCH, images_at_once(speak.device, model.size[0] * model.size[1]))
    decode = partial(_decoded, channels=len(model.transform.mean), model=model)
    waiting: list[tuple[Path, Decoded]] = []
    for pair in in_threads(decode, paths, BATCHES_AHEAD * batch):
        waiting.append(pair)
        if len(waiting) == batch:
            yield from speak(waiting)
            waiting = []
    yield from speak(waiting)


def _decoded(path: Path, channels: int, model: TrainedClassifier) -> Decoded:
    """The image of a file; whatever is wrong with it or its name is its own affair."""
    try:
        return read_image_at_size(path, channels, model.size, model.fit, model.keep)
    except Unreadable as error:
        return error.why
    except (OSError, ValueError) as error:  # of names that no file can have
        return str(error)


def in_threads(work: Callable[[Path], Decoded], paths: Iterable[Path], ahead: int) -> Iterator[tuple[Path, Decoded]]:
    """``(path, work(path))`` in order; at most ``ahead`` are under way, however many paths there are."""
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


class Speaker:
    """The model on a device, with the mix of classes that is expected."""

    def __init__(self, model: TrainedClassifier, device: torch.device, top: int, prior: Prior | None) -> None:
        self.device, self.names = device, model.class_names
        self.top = min(top, len(self.names))
        self.classifier = model.classifier.to(device)
        self.transform = Normalise(model.transform.mean, model.transform.std, device)
        self.factor = model.scale / model.temperature
        self.shift = None if prior is None else model.shift(prior).to(device, torch.float32)

    def __call__(self, decoded: list[tuple[Path, Decoded]]) -> Iterator[Answer]:
        """The answers for a batch, in its order."""
        pictures = [picture for _, picture in decoded if not isinstance(picture, str)]
        tops = iter(self.likeliest(np.stack(pictures)) if pictures else ())
        for path, picture in decoded:
            yield Answer(path, error=picture) if isinstance(picture, str) else Answer(path, next(tops))

    @torch.inference_mode()
    def likeliest(self, pictures: ImageArray) -> list[tuple[tuple[str, float], ...]]:
        """The top classes of each picture [batch, H, W, C], with their probabilities."""
        images = self.transform(torch.from_numpy(pictures).to(self.device))
        logits: Tensor = self.factor * self.classifier(images).float()
        if self.shift is not None:
            logits = logits + self.shift
        values, classes = logits.softmax(dim=1).topk(self.top, dim=1)
        return [
            tuple((self.names[c], p) for c, p in zip(row, sure, strict=True))
            for row, sure in zip(classes.tolist(), values.tolist(), strict=True)
        ]
