"""A draft recipe: one candidate model, with all settings that follow from the data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch

from tailcloud.auto_recipe.candidates import Candidate
from tailcloud.auto_recipe.flip_test import FlipTest
from tailcloud.auto_recipe.rules import (
    ChosenSettings,
    choose_augmentation,
    choose_correction,
    choose_engine,
    choose_kept_stage,
    choose_model,
    choose_stages,
    choose_validation,
    default_epochs,
)
from tailcloud.classifier import Architecture, cost
from tailcloud.data import Dataset
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.training.model import architecture

Settings = Mapping[str, Any]

STAGE2_SHARE, MIN_STAGE2_EPOCHS = 0.15, 5  # of the epochs of the first stage
FEW_STEPS, MIXUP_OF_FEW_STEPS = 5000, 0.4  # a first stage of fewer steps gets less mixup
MIN_EPOCH_SHARE = 0.3  # of the default epochs
MIN_STEPS, MIN_EPOCHS, MAX_MIN_EPOCHS = 1000, 5, 30  # a first stage needs 1000 steps, that is 5 to 30 epochs


@dataclass(frozen=True)
class Draft:
    """A candidate model with its settings, for any number of epochs.

    ``overrides`` are settings of the user, which replace chosen ones. ``method`` replaces the default method.
    ``threads`` is the number of threads, if timing found one that is better than the default.
    """

    dataset: Dataset
    candidate: Candidate
    device: torch.device
    flips: FlipTest
    overrides: Sequence[Settings]
    method: str | None = None
    threads: int | None = None

    @cached_property
    def base(self) -> Recipe:
        """The recipe before anything is chosen."""
        return load_recipe(None, [{"data": self.dataset.spec}, self.method_setting, *self.overrides])

    @property
    def method_setting(self) -> Settings:
        """The setting of the method, if it is not the default."""
        return {"method": self.method} if self.method else {}

    @cached_property
    def chosen(self) -> ChosenSettings:
        """The settings that do not depend on the time limit."""
        chosen = ChosenSettings()
        choose_model(chosen, self.dataset, self.candidate)
        choose_augmentation(chosen, self.dataset, self.candidate.side, self.flips)
        choose_stages(chosen, self.dataset, self.base)
        choose_validation(chosen, self.dataset)
        choose_engine(chosen, self.device)
        recipe = self.recipe_so_far(chosen)
        choose_correction(chosen, self.dataset, recipe)
        choose_kept_stage(chosen, self.dataset, recipe)
        return chosen

    def recipe_so_far(self, chosen: ChosenSettings) -> Recipe:
        """The recipe of what is chosen, with the overrides."""
        so_far = {**self.method_setting, **chosen.settings, "data": self.data_setting(chosen)}
        return load_recipe(None, [so_far, *self.overrides])

    def data_setting(self, chosen: ChosenSettings) -> Settings:
        """The table ``data`` of the recipe."""
        return {"spec": self.dataset.spec, **chosen.settings.get("data", {})}

    @property
    def title(self) -> str:
        """The model and its image size in a few words."""
        return f"{self.one_epoch.model.backbone} at {self.side} pixels"

    @property
    def side(self) -> int:
        """Pixels a side of the training images."""
        return self.one_epoch.data.size or max(self.dataset.shape[:2])

    @cached_property
    def one_epoch(self) -> Recipe:
        """The recipe of a run of one epoch."""
        return self.recipe(1)

    @property
    def flops(self) -> int:
        """Forward FLOPs of one image."""
        return forward_flops(architecture(self.one_epoch, self.dataset), self.side)

    @property
    def images(self) -> int:
        """Training images, without held-out ones."""
        return round(len(self.dataset.train) * (1 - self.one_epoch.selection.split))

    @property
    def evaluated_images(self) -> int:
        """Images that are evaluated after an epoch."""
        held_out = len(self.dataset.val) if self.dataset.val else len(self.dataset.train) - self.images
        return len(self.dataset.test) + held_out

    @property
    def default_epochs(self) -> int:
        """Epochs of a first stage without a time limit."""
        return default_epochs(self.dataset)

    @property
    def most_epochs(self) -> int:
        """Epochs of a first stage with plenty of time."""
        return self.default_epochs

    @property
    def enough_epochs(self) -> float:
        """Fewer epochs than this are too few for the draft: a smaller model trains better."""
        return MIN_EPOCH_SHARE * self.default_epochs

    @property
    def margin(self) -> float:
        """How many times the time that it needs a draft must have, since the machine may turn slower."""
        return 1.0

    @property
    def min_epochs(self) -> int:
        """The fewest epochs that are trained, even if they exceed the time limit."""
        steps = max(1, self.images // self.one_epoch.stage1.batch)
        return min(self.default_epochs, max(MIN_EPOCHS, min(MAX_MIN_EPOCHS, -(-MIN_STEPS // steps))))

    def settings(self, epochs: int, every: int = 1) -> dict[str, Any]:
        """The settings of a run with that many epochs in its first stage, evaluated after every ``every`` epochs."""
        chosen = {table: dict(fields) for table, fields in self.chosen.settings.items()}
        chosen |= {**self.method_setting, "data": dict(self.data_setting(self.chosen))}
        if "stage1.epochs" in fields_of(self.overrides):
            epochs = self.base.stage1.epochs
        chosen["stage1"]["epochs"] = epochs
        if "stage2" in chosen:
            chosen["stage2"].setdefault("epochs", max(MIN_STAGE2_EPOCHS, round(STAGE2_SHARE * epochs)))
        if self.needs_less_mixup(epochs):
            chosen["stage1"]["mixup"] = MIXUP_OF_FEW_STEPS
        chosen["selection"]["every"] = every
        if self.threads:
            chosen["engine"] = {**chosen.get("engine", {}), "threads": self.threads}
        return chosen

    def needs_less_mixup(self, epochs: int) -> bool:
        """Whether a first stage of so many epochs is too short for the mixup of the method."""
        steps = epochs * len(self.dataset.train) // self.chosen.settings["stage1"]["batch"]
        return steps < FEW_STEPS and self.base.stage1.mixup > MIXUP_OF_FEW_STEPS

    def recipe(self, epochs: int, every: int = 1) -> Recipe:
        """The recipe with those settings and the overrides."""
        return load_recipe(None, [self.settings(epochs, every), *self.overrides])

    def reasons(self) -> Iterator[str]:
        """The reasons for what was chosen, without overridden fields."""
        fixed = set(fields_of(self.overrides))
        yield from (text for key, text in self.chosen.reasons if key not in fixed)


@lru_cache(maxsize=64)
def forward_flops(model: Architecture, side: int) -> int:
    """Forward FLOPs of one image; drafts of the same model share the count, which takes a moment."""
    return cost(model, side, side).flops


def fields_of(tables: Sequence[Settings]) -> Iterator[str]:
    """The names of all fields in some settings, as ``table.field``."""
    for table in tables:
        for key, value in table.items():
            yield from (f"{key}.{inner}" for inner in value) if isinstance(value, Mapping) else (key,)
