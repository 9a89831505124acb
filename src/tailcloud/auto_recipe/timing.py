"""Timing: a few real steps of each stage of a recipe, on the device of the run."""

import time
import warnings
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch

from tailcloud.data import Dataset, Split
from tailcloud.errors import TailcloudWarning
from tailcloud.recipe import Recipe, Stage
from tailcloud.training.devices import set_deterministic, set_threads
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts
from tailcloud.training.stages.start import start_stage

TRIAL_STEPS, TRIAL_TEST_IMAGES = 2, 256  # batches of a trial epoch, test images evaluated
TRIAL_READS = 128  # images read from files
MIN_TIMED_SECONDS, MAX_TIMED_EPOCHS = 0.5, 50
TRIAL_LR = 1e-4  # any learning rate takes the same time
OVERHEAD = 3.0  # seconds: the start of a run, and its report
RESERVE = 0.05  # share of a run for checkpoints and other work of the machine


class _NullObserver:
    """Ignores all events."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """Ignored."""

    def epoch_done(self, line: dict[str, object]) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored; the run itself repeats it."""


@dataclass(frozen=True)
class StepTiming:
    """Seconds to train on one image, by stage; to evaluate one image; and to set up a stage."""

    train: dict[str, float]
    evaluate: float
    setup: float

    def scaled(self, factor: float) -> "StepTiming":
        """An estimate for a model with ``factor`` times the FLOPs, before it is timed itself."""
        train = {name: factor * each for name, each in self.train.items()}
        return StepTiming(train, factor * self.evaluate, self.setup)

    def limited_by_reading(self, reading: float) -> "StepTiming":
        """The timing if an image takes ``reading`` seconds to read at the same time: the slower of both."""
        train = {name: max(each, reading) for name, each in self.train.items()}
        return StepTiming(train, max(self.evaluate, reading), self.setup)

    def seconds(self, recipe: Recipe, images: int, evaluated: int) -> float:
        """The time of a run: ``images`` to train on, ``evaluated`` after every evaluated epoch and at the end."""
        total = OVERHEAD
        for name, stage in recipe.stages.items():
            times = -(-stage.epochs // recipe.selection.every) + 1
            training = self.setup + stage.epochs * images * self.train[name] if stage.epochs else 0.0
            total += training + times * evaluated * self.evaluate
        return total * (1 + RESERVE)


def time_recipe(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> StepTiming:
    """Train and evaluate on a few batches of images with ``side`` pixels a side."""
    threads = torch.get_num_threads()
    set_deterministic(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailcloudWarning)  # a few batches do not hold every class
            session = Session(recipe, trial_dataset(recipe, dataset, side), device)
            set_threads(recipe, session.step_flops)
            return time_stages(session).limited_by_reading(reading_seconds(dataset.train))
    finally:
        torch.set_num_threads(threads)


def reading_seconds(split: Split) -> float:
    """The time to read one image from its file, measured on a few; 0 for images in memory."""
    if not split.streamed:
        return 0.0
    rows = np.linspace(0, len(split) - 1, min(TRIAL_READS, len(split))).astype(np.int64)
    started = time.perf_counter()
    split.some(rows)
    return (time.perf_counter() - started) / len(rows)


def trial_dataset(recipe: Recipe, dataset: Dataset, side: int) -> Dataset:
    """A few batches of noise images with labels of the data set: steps on noise take the same time."""
    batch = max(stage.batch for stage in recipe.stages.values())
    random = np.random.RandomState(0)

    def some(split: Split, count: int) -> Split:
        shape = (count, side, side, dataset.shape[2])
        noise = random.randint(0, 256, shape, dtype=np.uint8)
        return Split(noise, split.labels[random.randint(0, len(split), count)])

    tested = min(TRIAL_TEST_IMAGES, len(dataset.test))
    return replace(dataset, train=some(dataset.train, TRIAL_STEPS * batch), test=some(dataset.test, tested), val=None)


def time_stages(session: Session) -> StepTiming:
    """Time every stage, and the evaluation."""
    train, setup = {}, 0.0
    for name, stage in session.recipe.stages.items():
        started = time.perf_counter()
        start_stage(session, name)
        if not stage.epochs:
            train[name] = 0.0
            continue
        parts = prepare_stage(session, name, _NullObserver())
        train_epoch(session, parts, 0, [TRIAL_LR] * parts.loader.steps)
        setup = max(setup, time.perf_counter() - started)
        train[name] = epoch_seconds(session, parts) / len(session.dataset.train)
    session.predict(session.images.test, 1.0)
    started = time.perf_counter()
    session.predict(session.images.test, 1.0)
    return StepTiming(train, (time.perf_counter() - started) / len(session.dataset.test), setup)


def epoch_seconds(session: Session, parts: StageParts) -> float:
    """The median time of a trial epoch, without the first one."""
    seconds: list[float] = []
    while sum(seconds) < MIN_TIMED_SECONDS and len(seconds) < MAX_TIMED_EPOCHS:
        started = time.perf_counter()
        train_epoch(session, parts, len(seconds) + 1, [TRIAL_LR] * parts.loader.steps)
        seconds.append(time.perf_counter() - started)
    return median(seconds)
