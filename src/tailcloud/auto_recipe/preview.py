"""What ``tailcloud train --data SPEC`` would do, and how long that should take here."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tailcloud.auto_recipe.candidates import is_own
from tailcloud.auto_recipe.choice import choose
from tailcloud.auto_recipe.draft import Settings
from tailcloud.auto_recipe.epoch_budget import epochs_of
from tailcloud.auto_recipe.timing import measure
from tailcloud.data import Dataset
from tailcloud.formatting import duration
from tailcloud.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class Expected:
    """A recipe, why it is that one, and the seconds that it should take."""

    recipe: Recipe
    reasons: list[str]
    seconds: float


def expect(dataset: Dataset, device: torch.device, asked: Sequence[Settings] = ()) -> Expected:
    """The recipe that would be trained: chosen for images of one's own, the shipped one for a benchmark.

    A few steps are timed. ``asked`` are settings that lie over the recipe.
    """
    if is_own(dataset):
        choice = choose(dataset, device, None, asked)
        return Expected(load_recipe(None, [choice.settings, *asked]), choice.reasons, choice.seconds)
    recipe = load_recipe(None, [{"data": dataset.spec}, *asked])
    seconds = _seconds(recipe, dataset, device)
    reasons = [
        f"The recipe that comes with these data: {recipe.method} on {recipe.model.backbone}.",
        f"{epochs_of(recipe)} epochs should take {duration(seconds)} here.",
    ]
    return Expected(recipe, reasons, seconds)


def _seconds(recipe: Recipe, dataset: Dataset, device: torch.device) -> float:
    """The time by plain steps on a CPU: compiling a trial would take longer than it tells."""
    plain = recipe.engine.model_copy(update={"executor": "eager"})
    timed = recipe.model_copy(update={"engine": plain}) if device.type == "cpu" else recipe
    pace = measure(timed, dataset, max(dataset.shape[:2]), device)
    images = round(len(dataset.train) * (1 - recipe.selection.split))
    held_out = len(dataset.val) if dataset.val else len(dataset.train) - images
    return pace.seconds(recipe, images, len(dataset.test) + held_out)
