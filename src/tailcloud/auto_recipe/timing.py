"""Timing: a few real steps of each stage of a recipe, or features of a few images, on the device of the run."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import Tensor

from tailcloud.data import Dataset, Split
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.file_images import FileImages
from tailcloud.data.parallel_io import read_images
from tailcloud.errors import TailcloudWarning
from tailcloud.recipe import Recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import cores, set_deterministic, set_threads, using_threads
from tailcloud.training.evaluation_schedule import count_evaluated, evaluation_share
from tailcloud.training.features.embedder import Embedder
from tailcloud.training.features.feature_cache import cache_of
from tailcloud.training.features.run_features import known_share
from tailcloud.training.features.views import View
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.model import first_model
from tailcloud.training.session import Session
from tailcloud.training.stages.cost import BACKWARD, FORWARD, gradients_per_step
from tailcloud.training.stages.parts import StageParts
from tailcloud.training.stages.start import start_stage

TRIAL_STEPS = {"cpu": (1, 8), "cuda": (4, 16)}  # of a short and of a long trial epoch: both have the same fixed cost
LONG_STEP = 0.3  # seconds: beside such steps the fixed cost of an epoch is nothing
TRIAL_BATCH, TRIAL_BATCH_SIDE = 16, 96  # on a CPU, steps on images from this size on are timed on small batches
TRIAL_TEST_IMAGES = {"cpu": 64, "cuda": 1024}  # test images evaluated, of more than SMALL_IMAGE pixels
SMALL_IMAGE, SMALL_TEST_IMAGES = 64 * 64, 256
TRIAL_READS = 128  # images read from files
MIN_TIMED_SECONDS, MAX_TIMED_EPOCHS = {"cpu": 0.5, "cuda": 0.2}, 50
TRIAL_LR = 1e-4  # any learning rate takes the same time
OVERHEAD = 3.0  # seconds: the start of a run, and its report
HEAD_SECONDS = 3e-5  # to train a head on the features of one image
RESERVE = 0.05  # share of a run for checkpoints and other work of the machine
LOOKED_UP, NEARLY_ALL = 24, 0.9  # images that are looked up in the cache of features; the share that it must have
KNOWN_SECONDS = 1e-3  # to read an image and find its features
TIMED_EVALUATIONS = 2  # of TRIAL_TEST_IMAGES
TIMING_START, SLOWER_ALONE = 1.0, 1.5  # seconds until a timing begins; how much longer it takes with one thread
CLEARLY_FASTER = 0.9  # one thread is taken if it needs at most this share of the time


@dataclass(frozen=True)
class StepTiming:
    """Seconds to train on one image, by stage; to evaluate one image; to set up a stage; and of each epoch.

    ``threads`` is the number of threads if it is not the default; they are so many times as fast (``thread_gain``).
    """

    train: dict[str, float]
    evaluate: float
    setup: float
    epoch: float = 0.0
    threads: int | None = None
    thread_gain: float = 1.0

    def scaled(self, factor: float) -> "StepTiming":
        """An estimate for a model with ``factor`` times the FLOPs, before it is timed itself."""
        train = {name: factor * each for name, each in self.train.items()}
        return replace(self, train=train, evaluate=factor * self.evaluate)

    def limited_by_reading(self, reading: float) -> "StepTiming":
        """The timing if an image takes ``reading`` seconds to read at the same time: the slower of both."""
        train = {name: max(each, reading) for name, each in self.train.items()}
        return replace(self, train=train, evaluate=max(self.evaluate, reading))

    def seconds(self, recipe: Recipe, images: int, evaluated: int) -> float:
        """The time of a run: ``images`` to train on, ``evaluated`` after every evaluated epoch and at the end."""
        return sum(self.stage_seconds(recipe, images, evaluated).values()) + START_AND_END

    def stage_seconds(self, recipe: Recipe, images: int, evaluated: int) -> dict[str, float]:
        """The time of each stage, with its evaluations.

        For a stage with views, images are embedded once; and not again if the stage before has views too.
        """
        seconds, embedded = {}, False
        for name, stage in recipe.stages.items():
            times = count_evaluated(stage.epochs, recipe.selection, evaluation_share(evaluated, images)) + 1
            total = self.setup + stage.epochs * (images * self.train[name] + self.epoch) if stage.epochs else 0.0
            if not stage.views:
                total += times * evaluated * self.evaluate
            elif not embedded:
                total += (stage.views * images + evaluated) * self.evaluate
            seconds[name], embedded = total * (1 + RESERVE), bool(stage.views)
        return seconds


START_AND_END = OVERHEAD * (1 + RESERVE)


def time_recipe(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> StepTiming:
    """Train and evaluate on a few batches of images with ``side`` pixels a side."""
    set_deterministic(device)
    with using_threads(torch.get_num_threads()), warnings.catch_warnings():
        warnings.simplefilter("ignore", TailcloudWarning)  # a few batches do not hold every class
        recipe = with_trial_batch(recipe, side, device)
        session = Session(recipe, trial_dataset(recipe, dataset, side, device), device)
        set_threads(recipe, session.step_flops)
        timing = time_stages(session)
        if not recipe.engine.threads and torch.get_num_threads() > 1 and device.type == "cpu":
            timing = fewer_threads(timing, partial(time_stages, session))
        return timing.limited_by_reading(reading_seconds(dataset.train))


def seconds_to_time(timing: StepTiming) -> float:
    """What it takes on a CPU, roughly, to time large images that are estimated to take as long as this."""
    least, (short, long), train = MIN_TIMED_SECONDS["cpu"], TRIAL_STEPS["cpu"], max(timing.train.values())
    if train <= HEAD_SECONDS:
        once = max(least, TIMED_EVALUATIONS * TRIAL_BATCH * timing.evaluate)
    else:
        step = TRIAL_BATCH * train
        epochs = max(least, short * step) + (max(least, long * step) if step <= LONG_STEP else 0.0)
        once = step + epochs + TIMED_EVALUATIONS * TRIAL_TEST_IMAGES["cpu"] * timing.evaluate
    return TIMING_START + once * (1 + SLOWER_ALONE if cores() > 1 else 1)


def fewer_threads(timing: StepTiming, again: Callable[[], StepTiming]) -> StepTiming:
    """The timing, or that with one thread if it is clearly faster: threads of a busy machine wait for each other."""
    with using_threads(1):
        alone = again()
    several, one = (max(*each.train.values(), each.evaluate) for each in (timing, alone))
    return replace(alone, threads=1, thread_gain=several / one) if one < CLEARLY_FASTER * several else timing


class FasterThreads:
    """All threads or one, for repeated work: the first times tell which is faster on this machine at the moment."""

    def __init__(self) -> None:
        self.times, self.seconds = 0, dict[int, float]()

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Work inside with one thread twice, as it is slow at first; then with all; then with what was faster."""
        self.times += 1
        count = 1 if self.times < 3 else cores() if self.times == 3 else min(self.seconds, key=self.seconds.__getitem__)
        started = time.perf_counter()
        with using_threads(count):
            yield
        self.seconds[count] = time.perf_counter() - started


def with_trial_batch(recipe: Recipe, side: int, device: torch.device) -> Recipe:
    """The recipe with small batches if steps are long: an image takes about as long in a small batch."""
    if device.type != "cpu" or side < TRIAL_BATCH_SIDE:
        return recipe
    stages = {
        name: stage.model_copy(update={"batch": min(stage.batch, TRIAL_BATCH)}) for name, stage in recipe.stages.items()
    }
    return recipe.model_copy(update=stages)


def time_features(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> StepTiming:
    """Compute the features of a few images with ``side`` pixels a side; heads are not timed, they take seconds."""
    several = recipe.engine.threads or cores()
    with using_threads(several):
        embedder = make_embedder(recipe, dataset, side, device)
        noise = torch.from_numpy(np.random.RandomState(0).randint(0, 256, (embedder.batch, *embedder.shape), np.uint8))

        def measure() -> StepTiming:
            each = median(batch_seconds(embedder, noise.to(device))) / embedder.batch
            return StepTiming(dict.fromkeys(recipe.stages, HEAD_SECONDS), each, 0.0)

        timing = measure()
        if not recipe.engine.threads and several > 1 and device.type == "cpu":
            timing = fewer_threads(timing, measure)
    return timing.limited_by_reading(reading_seconds(dataset.train))


def make_embedder(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> Embedder:
    """The frozen network of a recipe, for images with ``side`` pixels a side."""
    model, pretrained = first_model(recipe, dataset)
    assert pretrained is not None
    on_device = model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    transform = Normalise(pretrained.mean, pretrained.std, device)
    return Embedder(on_device, recipe.model.backbone, transform, (side, side, dataset.shape[2]))


def known_features_timing(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> StepTiming | None:
    """The timing if the cache has the features of nearly all images of a folder, judged by a few of them; else None."""
    files, cache = dataset.train.images, cache_of(recipe.data.feature_cache, lambda _: None)
    if not isinstance(files, FileImages) or cache is None or not cache.folder.is_dir():
        return None
    rows = np.linspace(0, len(files) - 1, min(LOOKED_UP, len(files))).astype(np.int64)
    pixels, _ = read_images(replace(files[rows], side=side, fit=recipe.data.fit))
    if known_share(pixels, make_embedder(recipe, dataset, side, device), cache) < NEARLY_ALL:
        return None
    return StepTiming(dict.fromkeys(recipe.stages, HEAD_SECONDS), KNOWN_SECONDS, 0.0)


def batch_seconds(embedder: Embedder, images: Tensor) -> list[float]:
    """The time of several batches of features, without the first one."""
    seconds: list[float] = []
    embedder(images, View())
    while sum(seconds) < MIN_TIMED_SECONDS[kind_of(images.device)] and len(seconds) < MAX_TIMED_EPOCHS:
        started = time.perf_counter()
        embedder(images, View()).cpu()
        seconds.append(time.perf_counter() - started)
    return seconds


def estimated_timing(recipe: Recipe, features: float, passes: float) -> StepTiming:
    """An estimate before a recipe is timed itself.

    Args:
        recipe: the recipe.
        features: seconds to compute the features of one image.
        passes: the time of a step, by image, over that; steps on features do not depend on the network.
    """
    step = passes * features
    train = {
        name: HEAD_SECONDS if stage.views else gradients_per_step(stage) * step for name, stage in recipe.stages.items()
    }
    return StepTiming(train, features, 0.0)


def reading_seconds(split: Split) -> float:
    """The time to read one image from its file, measured on a few; 0 for images in memory."""
    if not split.streamed:
        return 0.0
    rows = np.linspace(0, len(split) - 1, min(TRIAL_READS, len(split))).astype(np.int64)
    started = time.perf_counter()
    split.some(rows)
    return (time.perf_counter() - started) / len(rows)


def trial_dataset(recipe: Recipe, dataset: Dataset, side: int, device: torch.device) -> Dataset:
    """A few batches of noise images with labels of the data set: steps on noise take the same time."""
    batch = max(stage.batch for stage in recipe.stages.values() if not stage.views)
    random, kind = np.random.RandomState(0), kind_of(device)

    def some(split: Split, count: int) -> Split:
        shape = (count, side, side, dataset.shape[2])
        noise = random.randint(0, 256, shape, dtype=np.uint8)
        return Split(noise, split.labels[random.randint(0, len(split), count)])

    most = SMALL_TEST_IMAGES if side**2 <= SMALL_IMAGE else TRIAL_TEST_IMAGES[kind]
    tested = min(most, len(dataset.test))
    return replace(
        dataset, train=some(dataset.train, TRIAL_STEPS[kind][1] * batch), test=some(dataset.test, tested), val=None
    )


def time_stages(session: Session) -> StepTiming:
    """Time every stage, and the evaluation. The model's head is put back, so that stages can be timed again."""
    first_head, train, setup, fixed = session.model.head, dict[str, float](), 0.0, 0.0
    for name, stage in session.recipe.stages.items():
        started = time.perf_counter()
        if stage.views:
            train[name] = HEAD_SECONDS
            continue
        start_stage(session, name)
        if not stage.epochs:
            train[name] = 0.0
            continue
        parts = prepare_stage(session, name, SilentObserver())
        if session.executor == "graphed":  # the run itself will find libraries loaded and algorithms chosen
            started = time.perf_counter()
            parts = prepare_stage(session, name, SilentObserver())
        train_epoch(session, parts, 0, trial_rates(session, 0))
        setup = max(setup, time.perf_counter() - started)
        step, epoch = step_seconds(session, parts)
        train[name], fixed = step / stage.batch, max(fixed, epoch)
    evaluation = evaluation_seconds(session, train)
    session.use_head(first_head)
    return StepTiming(train, evaluation, setup, fixed)


def evaluation_seconds(session: Session, train: dict[str, float]) -> float:
    """The time to evaluate one image; on a GPU, which prepares for that for seconds, it follows from the steps."""
    if session.device.type == "cuda" and any(train.values()):
        stages = session.recipe.stages
        return max(seconds / gradients_per_step(stages[name]) for name, seconds in train.items()) / (FORWARD + BACKWARD)
    session.predict(session.images.test, 1.0)
    session.predictions.clear()
    started = time.perf_counter()
    session.predict(session.images.test, 1.0)
    return (time.perf_counter() - started) / len(session.dataset.test)


def step_seconds(session: Session, parts: StageParts) -> tuple[float, float]:
    """The time of a step, and the fixed time of an epoch: those of a short and of a long epoch differ by steps alone.

    If t(n) is the time of an epoch of n steps, a step takes (t(b) − t(a)) / (b − a), and an epoch t(a) − a·step more.
    """
    short, long = (trial_rates(session, which) for which in (0, 1))
    once = epoch_seconds(session, parts, short)
    if once > LONG_STEP * len(short):
        return once / len(short), 0.0
    often = epoch_seconds(session, parts, long)
    step = max(often - once, 0.1 * often) / (len(long) - len(short))  # noise may make a short epoch the slower one
    return step, max(0.0, once - len(short) * step)


def epoch_seconds(session: Session, parts: StageParts, rates: list[float]) -> float:
    """The median time of a trial epoch."""
    seconds: list[float] = []
    while sum(seconds) < MIN_TIMED_SECONDS[kind_of(session.device)] and len(seconds) < MAX_TIMED_EPOCHS:
        started = time.perf_counter()
        train_epoch(session, parts, len(seconds) + 1, rates)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def trial_rates(session: Session, which: int) -> list[float]:
    """The learning rates of a short (0) or long (1) trial epoch."""
    return [TRIAL_LR] * TRIAL_STEPS[kind_of(session.device)][which]


def kind_of(device: torch.device) -> str:
    """ "cpu" or "cuda", which stands for every other device too."""
    return "cpu" if device.type == "cpu" else "cuda"
