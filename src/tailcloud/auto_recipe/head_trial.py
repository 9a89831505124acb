"""The head trial: several heads are trained on features of a frozen network, and compared by cross-validation.

Features are computed once, for all heads and for the run itself, so that a head costs seconds.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.classifier import fresh_head
from tailcloud.data import Dataset
from tailcloud.data.loaders.features import FeatureImages
from tailcloud.data.splits import Vector, positions_by_class
from tailcloud.errors import TailcloudWarning
from tailcloud.evaluation import Predictions
from tailcloud.evaluation.paired_difference import (
    FIGURE_NAMES,
    SelectionObjective,
    few_shot_classes,
    image_weights,
    paired_difference,
)
from tailcloud.recipe import Recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.features.run_features import RunFeatures
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.schedule import learning_rates
from tailcloud.training.session import Session
from tailcloud.training.stages.start import start_stage

FOLDS = 3
TIMED_EPOCHS = 2
LABELS_ALONE = 0  # pixels of images in a fold: it has features, not images


@dataclass
class HeadTrial:
    """The accuracy of each head by the objective, in percent, and how many of the folds were measured.

    ``errors`` has the standard error of each head's difference to the first one.
    """

    accuracy: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    folds: int = 0
    images: int = 0
    objective: SelectionObjective = "balanced"

    @property
    def best(self) -> str:
        """The head with the highest accuracy of those that are better than the first beyond the error; else the first.

        So the method does not change with every small change of the data or of the machine's load.
        """
        first = next(iter(self.accuracy))
        better = [name for name in self.accuracy if self.accuracy[name] - self.accuracy[first] > self.errors[name]]
        return max(better, key=lambda name: self.accuracy[name], default=first)

    def reason(self) -> str:
        """The comparison in a sentence."""
        ranked = sorted(self.accuracy.items(), key=lambda item: -item[1])
        figures = ", ".join(f"{name} {value:.1f}" for name, value in ranked)
        name = FIGURE_NAMES[self.objective]
        why = f"the best of {len(ranked)}"
        if self.best != ranked[0][0]:
            top = ranked[0][0]
            kept = "the default" if self.best == next(iter(self.accuracy)) else "better than the default beyond chance"
            why = f"{kept}; {top} is better, but within its error of {self.errors[top]:.1f}"
        return (
            f"Head: {self.best}, {why}. {name[0].upper()}{name[1:]} on {self.images:,} training "
            f"images that were held out{' in turn' if self.folds > 1 else ''}: {figures}."
        )


def session_with_features(
    recipe: Recipe, dataset: Dataset, device: torch.device, note: Callable[[str], None], longest: float | None = None
) -> Session:
    """A session whose features are all computed: those of the training images, and those that the run needs too.

    Args:
        recipe: its first stage trains the head on features.
        dataset: the data of the run, its validation images held out already.
        device: where to compute.
        note: receives a sentence about each split.
        longest: seconds that the features of all splits may take; None: any.

    Raises:
        TooSlow: they would take longer.
    """
    session = Session(recipe, dataset, device)
    session.note = note
    session.enter_stage("stage1")
    assert session.features is not None
    if longest is not None:
        trained = recipe.stage1.views * len(dataset.train)
        session.features.longest = longest * trained / (trained + len(dataset.test) + len(dataset.val or ()))
    session.features.load()
    return session


def time_head(recipe: Recipe, session: Session) -> float:
    """Seconds to train the head of a recipe on the features of one image: those of a few epochs are measured."""
    assert session.features is not None
    features = session.features.train
    fold = FoldSession(session, recipe, features, np.zeros(len(features.labels), np.bool_))
    name = next(name for name, stage in recipe.stages.items() if stage.epochs)
    start_stage(fold, name)
    parts, seconds = prepare_stage(fold, name, SilentObserver()), list[float]()
    for epoch in range(TIMED_EPOCHS):
        started = time.perf_counter()
        train_epoch(fold, parts, epoch, learning_rates(recipe.stages[name], epoch, parts.loader.steps))
        seconds.append(time.perf_counter() - started)
    return min(seconds) / len(features.labels)


def try_heads(recipes: Mapping[str, Recipe], session: Session, seconds: float | None) -> HeadTrial:
    """Cross-validate heads on the training images: the recipes differ in method and head alone.

    Args:
        recipes: by name, in order of preference; all of them train the head on features of the same network.
        session: has the features; validation and test images are not used.
        seconds: no further fold is begun if it would end after so many; None: all folds.
    """
    assert session.features is not None
    dataset = session.dataset
    features, folds = session.features.train, folds_of(dataset.train.labels, dataset.classes)
    predictions: dict[str, list[Predictions]] = {name: [] for name in recipes}
    started, trial = time.perf_counter(), HeadTrial(objective=session.recipe.selection.objective or "balanced")
    counts = dataset.profile.counts
    if trial.objective == "few":
        few_shot_classes(counts)  # an error if there are none
    for number in range(FOLDS):
        if number and seconds is not None and time.perf_counter() - started > seconds * number / (number + 1):
            break
        for name, recipe in recipes.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TailcloudWarning)  # a fold may lack a class that the run has
                fold = FoldSession(session, recipe, features, folds == number)
                predictions[name].append(fold.train_and_predict())
        trial.folds += 1
        trial.images += int((folds == number).sum())
    joined = {name: Predictions.joined(parts) for name, parts in predictions.items()}
    target = joined[next(iter(recipes))].target
    correct = {name: target == each.predicted for name, each in joined.items()}
    weights = image_weights(target, counts, trial.objective)
    for name, right in correct.items():
        difference = paired_difference(target, correct[next(iter(recipes))], right, weights)
        trial.accuracy[name], trial.errors[name] = difference.after, difference.error
    return trial


def folds_of(labels: Vector, classes: int, count: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each image: 0, 1 … ``count`` − 1 in turn within each class, in random order."""
    random, folds = np.random.RandomState(0), np.zeros(len(labels), np.int64)
    for positions in positions_by_class(labels, classes):
        folds[random.permutation(positions)] = np.arange(len(positions)) % count
    return folds


class FoldFeatures(RunFeatures):
    """The features of one fold: ``train`` to train on, ``test`` to predict."""

    def __init__(self, whole: FeatureImages, aside: Sequence[bool] | NDArray[np.bool_]) -> None:
        held = torch.from_numpy(np.asarray(aside)).to(whole.device)
        self.train = FeatureImages(whole.features[:, ~held], whole.labels[~held])
        self.test = FeatureImages(whole.features[:1, held], whole.labels[held])
        self.val = None

    def load(self, *, train: bool = True) -> None:
        """Nothing to do: they are here."""


class FoldSession(Session):
    """A session that trains the head of a recipe on the features of a fold.

    Args:
        of: the session whose network and device it uses.
        recipe: what to train.
        features: of all training images.
        aside: which of them are predicted and not trained on.
    """

    def __init__(self, of: Session, recipe: Recipe, features: FeatureImages, aside: NDArray[np.bool_]) -> None:
        vars(self).update(vars(of))
        self.recipe, self.fold = recipe, FoldFeatures(features, aside)
        train = of.dataset.train
        shapeless = np.empty((int((~aside).sum()), LABELS_ALONE), np.uint8)
        kept = replace(train, images=shapeless, labels=train.labels[~aside], groups=None, names=None)
        self.dataset = replace(of.dataset, train=kept)
        self.evaluations, self.predictions = {}, {}
        self.use_head(fresh_head(self.model, recipe.model.head, recipe.seed))

    def enter_stage(self, name: str) -> list[str]:  # noqa: ARG002
        """Take the features of the fold."""
        self.drop_evaluations()
        self.features = self.fold
        return []

    def train_and_predict(self) -> Predictions:
        """Train all stages of the recipe; the predictions for the images that were set aside."""
        self.train()
        return self.predict(self.fold.test, 1.0)

    def train(self) -> None:
        """Train all stages of the recipe."""
        for name, stage in self.recipe.stages.items():
            start_stage(self, name)
            if stage.epochs:
                parts = prepare_stage(self, name, SilentObserver())
                for epoch in range(stage.epochs):
                    train_epoch(self, parts, epoch, learning_rates(stage, epoch, parts.loader.steps))
