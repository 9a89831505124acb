"""How fast this machine trains a recipe: a few real steps of each stage, timed."""

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

STEPS, JUDGED = 2, 256  # batches in a trial epoch, test images judged
READ = 128  # images that are read for their time
ENOUGH, MOST = 0.5, 50  # seconds of timing, epochs timed
RATE = 1e-4  # of learning; any will do
AROUND = 3.0  # seconds: the start of a run, and its report
SPARE = 0.05  # the share of a run for checkpoints and for whatever else the machine does


class _Silent:
    """Nobody watches a trial."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """Unheard."""

    def epoch_done(self, line: dict[str, object]) -> None:
        """Unheard."""

    def note(self, text: str) -> None:
        """Unheard; the run itself will say it again."""


@dataclass(frozen=True)
class Pace:
    """Seconds: to train an image in each stage, to judge one, and to make a stage ready."""

    image: dict[str, float]
    judged: float
    ready: float

    def scaled(self, factor: float) -> "Pace":
        """The pace of a model with so many times the arithmetic: a guess, before it is timed itself."""
        return Pace({name: factor * each for name, each in self.image.items()}, factor * self.judged, self.ready)

    def fed(self, reading: float) -> "Pace":
        """The pace where an image takes so long to be read meanwhile: whichever is slower."""
        image = {name: max(each, reading) for name, each in self.image.items()}
        return Pace(image, max(self.judged, reading), self.ready)

    def seconds(self, recipe: Recipe, images: int, judged: int) -> float:
        """What a run takes: so many training images, so many to judge after every evaluated epoch and at the end."""
        total = AROUND
        for name, stage in recipe.stages.items():
            times = -(-stage.epochs // recipe.selection.every) + 1
            training = self.ready + stage.epochs * images * self.image[name] if stage.epochs else 0.0
            total += training + times * judged * self.judged
        return total * (1 + SPARE)


def measure(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> Pace:
    """Train and judge a few batches of images of that size; the time is the machine's as it is now."""
    threads = torch.get_num_threads()
    set_deterministic(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TailcloudWarning)  # a few batches do not hold every class
            session = Session(recipe, sampled(recipe, dataset, side), device)
            set_threads(recipe, session.step_flops)
            return measured(session).fed(reading_seconds(dataset.train))
    finally:
        torch.set_num_threads(threads)


def reading_seconds(split: Split) -> float:
    """How long it takes to read an image that stays in its file, of a few evenly spread ones; 0 of those in memory."""
    if not split.streamed:
        return 0.0
    rows = np.linspace(0, len(split) - 1, min(READ, len(split))).astype(np.int64)
    started = time.perf_counter()
    split.some(rows)
    return (time.perf_counter() - started) / len(rows)


def sampled(recipe: Recipe, dataset: Dataset, side: int) -> Dataset:
    """A few batches of the data set's labels, with noise of another size for images: steps take as long on noise."""
    batch = max(stage.batch for stage in recipe.stages.values())
    random = np.random.RandomState(0)

    def some(split: Split, count: int) -> Split:
        shape = (count, side, side, dataset.shape[2])
        noise = random.randint(0, 256, shape, dtype=np.uint8)
        return Split(noise, split.labels[random.randint(0, len(split), count)])

    judged = min(JUDGED, len(dataset.test))
    return replace(dataset, train=some(dataset.train, STEPS * batch), test=some(dataset.test, judged), val=None)


def measured(session: Session) -> Pace:
    """The pace of each stage."""
    images, preparing = {}, 0.0
    for name, stage in session.recipe.stages.items():
        started = time.perf_counter()
        start_stage(session, name)
        if not stage.epochs:
            images[name] = 0.0
            continue
        parts = prepare_stage(session, name, _Silent())
        train_epoch(session, parts, 0, RATE)
        preparing = max(preparing, time.perf_counter() - started)
        images[name] = epoch_seconds(session, parts) / len(session.dataset.train)
    session.predict(session.images.test, 1.0)
    started = time.perf_counter()
    session.predict(session.images.test, 1.0)
    return Pace(images, (time.perf_counter() - started) / len(session.dataset.test), preparing)


def epoch_seconds(session: Session, parts: StageParts) -> float:
    """The usual time of a trial epoch, the first one left out."""
    seconds: list[float] = []
    while sum(seconds) < ENOUGH and len(seconds) < MOST:
        started = time.perf_counter()
        train_epoch(session, parts, len(seconds) + 1, RATE)
        seconds.append(time.perf_counter() - started)
    return median(seconds)
