"""A preview of ``tailcloud train --data SPEC``: the recipe, the reasons for it, and the expected time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tailcloud.auto_recipe.candidates import is_user_data
from tailcloud.auto_recipe.choice import choose
from tailcloud.auto_recipe.draft import Settings
from tailcloud.auto_recipe.time_budget import epochs_text
from tailcloud.auto_recipe.timing import time_recipe
from tailcloud.data import Dataset
from tailcloud.formatting import duration
from tailcloud.freed_memory import freed_memory_kept
from tailcloud.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class TrainingPreview:
    """A recipe, the reasons for it, and the seconds that it should take."""

    recipe: Recipe
    reasons: list[str]
    seconds: float

    @property
    def sentence(self) -> str:
        """What training would do, in one sentence."""
        model, stages = self.recipe.model, list(self.recipe.stages.values())
        part = {"all": "", "head": "the head of "}.get(stages[0].train, "parts of ")
        start = "from pretrained weights" if model.pretrained else "from scratch"
        size = f" at {self.recipe.data.size} pixels" if self.recipe.data.size else ""
        return (
            f"Training would take {part}{model.backbone} {start}, with {self.recipe.method}{size}: "
            f"{epochs_text(self.recipe)} epochs, about {duration(self.seconds)} on this machine."
        )


def preview_training(dataset: Dataset, device: torch.device, overrides: Sequence[Settings]) -> TrainingPreview:
    """The recipe that would be trained: chosen for the user's own images, the shipped one for a benchmark.

    Times a few steps. ``overrides`` are settings of the user, which replace those of the recipe.
    """
    if is_user_data(dataset):
        with freed_memory_kept(on_cpu=device.type == "cpu"):
            choice = choose(dataset, device, None, overrides)
        return TrainingPreview(load_recipe(None, [choice.settings, *overrides]), choice.reasons, choice.seconds)
    recipe = load_recipe(None, [{"data": dataset.spec}, *overrides])
    seconds = _seconds(recipe, dataset, device)
    reasons = [
        f"The shipped recipe for these data: {recipe.method} with {recipe.model.backbone}.",
        f"{epochs_text(recipe)} epochs, about {duration(seconds)} on this machine.",
    ]
    return TrainingPreview(recipe, reasons, seconds)


def _seconds(recipe: Recipe, dataset: Dataset, device: torch.device) -> float:
    """The expected time. Steps are not compiled on a CPU: that would take longer than it saves."""
    plain = recipe.engine.model_copy(update={"executor": "eager"})
    timed = recipe.model_copy(update={"engine": plain}) if device.type == "cpu" else recipe
    with freed_memory_kept(on_cpu=device.type == "cpu"):
        timing = time_recipe(timed, dataset, max(dataset.shape[:2]), device)
    images = round(len(dataset.train) * (1 - recipe.selection.split))
    held_out = len(dataset.val) if dataset.val else len(dataset.train) - images
    return timing.seconds(recipe, images, len(dataset.test) + held_out)
