"""Training behind ``fit``: the same choosing, loop and run folder as ``tailcloud train``."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from tailcloud.auto_recipe import choose
from tailcloud.backbones.pretrained import check_weights
from tailcloud.calibration.held_out import check_held_out, stages_that_look
from tailcloud.data import Dataset, ReadOptions, hold_out, open_dataset
from tailcloud.errors import UsageError
from tailcloud.formatting import counted
from tailcloud.recipe import Recipe, Stage, load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.training import loop
from tailcloud.training.devices import check_engine
from tailcloud.training.tensorboard_log import check_logging

USUAL_SHARE = 0.1  # of the images is held out, as far as the time of a run is told in advance


class Source(Protocol):
    """Labelled images that can be read at any size."""

    @property
    def spec(self) -> str:
        """What a recipe calls them."""

    def open(self, reading: ReadOptions) -> Dataset:
        """Read them; where there is no test part, the training part stands in its place."""


@dataclass(frozen=True)
class AtPath:
    """A folder, a list or an ``.npz`` file."""

    spec: str

    def open(self, reading: ReadOptions) -> Dataset:
        """The data set, as ``tailcloud train --data PATH`` reads it."""
        return open_dataset(self.spec, options=reading)


class Teller:
    """Prints how a run is getting on: nothing, what was chosen and each stage, or each evaluated epoch too."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""
        if self.verbose:
            print(f"{name}: {counted(stage.epochs - done, 'epoch')}")

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained."""
        if self.verbose > 1 and "top1" in line:
            print(f"{line['stage']} epoch {line['epoch']}: loss {line['loss']:.4f}, top-1 {line['top1']:.1f} %")

    def note(self, text: str) -> None:
        """A sentence that the person at the keyboard should read."""
        if self.verbose:
            print(f"- {text}")


@dataclass(frozen=True)
class Task:
    """What is to be learnt, and how: ``asked`` are settings of a recipe, which lie over all that is chosen."""

    source: Source
    asked: Mapping[str, Any]
    device: torch.device
    budget: float | None
    command: str

    def recipe(self, *below: Mapping[str, Any]) -> Recipe:
        """The recipe with what was asked for."""
        return load_recipe(None, [*below, *self.layers])

    @property
    def layers(self) -> list[Mapping[str, Any]]:
        """What was asked for, and about which data: nobody else has a say in that."""
        return [self.asked, {"data": {"spec": self.source.spec}}]


def learn(task: Task, folder: RunFolder, teller: Teller) -> None:
    """Choose a recipe and train it in a folder."""
    started, reading = time.perf_counter(), task.recipe().data.read_options
    opened = task.source.open(reading)
    choice = choose(for_choosing(opened, task.asked), task.device, task.budget, task.layers, started)
    for reason in choice.reasons:
        teller.note(reason)
    recipe = task.recipe(choice.settings)
    check_engine(recipe.engine, task.device)
    check_logging(recipe.logging)
    if recipe.model.weights:
        check_weights(recipe.model.weights)
    if recipe.data.size not in {None, opened.shape[0]}:
        opened = task.source.open(recipe.data.read_options)
    dataset = judged_honestly(opened, recipe)
    check_held_out(recipe, dataset)
    for remark in [*dataset.profile.remarks(), *dataset.remarks]:
        teller.note(remark)
    with folder.locked():
        folder.create(recipe, task.command)
        loop.train(recipe, dataset, folder, task.device, teller)


def has_test(dataset: Dataset) -> bool:
    """Whether there is a test part, rather than the training part in its place."""
    return dataset.test is not dataset.train


def for_choosing(dataset: Dataset, asked: Mapping[str, Any]) -> Dataset:
    """The data with about as many images to judge as there will be: their number is a part of a run's time."""
    share = asked.get("selection", {}).get("split")
    if has_test(dataset) or share == 0:
        return dataset
    return replace(dataset, test=hold_out(dataset, share or USUAL_SHARE).val or dataset.train)


def judged_honestly(dataset: Dataset, recipe: Recipe) -> Dataset:
    """The data with a part held out as the recipe says, which is also judged on where there is no test part.

    Where nothing is held out either, training images are what is left to judge on. Both are said in a remark, which
    goes into the result and the report.
    """
    parted = hold_out(dataset, recipe.selection.split)
    if has_test(dataset):
        return parted
    if parted.val:
        looking = stages_that_look(recipe, parted)
        fitted = f"temperature and {', '.join(looking)} were" if looking else "temperature was"
        held = f"the {len(parted.val):,} images that were held out, which its {fitted} fitted on too"
        return _remarked(replace(parted, test=parted.val), f"There is no test part: every figure is of {held}.")
    if recipe.selection.pick == "best":
        raise UsageError(
            'selection.pick = "best" needs images that are held out, and there are none; give more images, a '
            "validation_fraction, or leave it out"
        )
    training = "every figure is of the training images, and says nothing about others"
    return _remarked(replace(parted, test=parted.train), f"No image was held out: {training}.")


def _remarked(dataset: Dataset, remark: str) -> Dataset:
    return replace(dataset, remarks=(*dataset.remarks, remark))
