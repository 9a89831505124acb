"""A recipe in the making: one candidate model, with everything that follows from the data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tailcloud.auto_recipe.candidates import Candidate
from tailcloud.auto_recipe.flip_test import Mirrored
from tailcloud.auto_recipe.rules import (
    Rules,
    choose_augmentation,
    choose_correction,
    choose_engine,
    choose_model,
    choose_stages,
    choose_validation,
    wanted_epochs,
)
from tailcloud.classifier import cost
from tailcloud.data import Dataset
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.training.model import architecture

Settings = Mapping[str, Any]

SHARE, LEAST_SECOND = 0.15, 5  # epochs of a second stage: this share of the first one's, and at least so many
SHORT, SHORT_MIXUP = 5000, 0.4  # a first stage of fewer steps has less time for mixed images
LEAST_STEPS, LEAST, MOST_OF_LEAST = 1000, 5, 30  # a sensible first stage has so many steps, in 5 to 30 epochs


@dataclass(frozen=True)
class Draft:
    """What would be trained: a candidate with its settings, for any number of epochs.

    ``asked`` are settings of the person at the keyboard; they lie over all that is chosen. ``method`` is another one
    than that of the data's own recipe.
    """

    dataset: Dataset
    candidate: Candidate
    device: torch.device
    mirrored: Mirrored
    asked: Sequence[Settings]
    method: str | None = None

    @cached_property
    def base(self) -> Recipe:
        """The recipe as it would be without a choice."""
        return load_recipe(None, [{"data": self.dataset.spec}, self.named, *self.asked])

    @property
    def named(self) -> Settings:
        """The method, where it is a choice."""
        return {"method": self.method} if self.method else {}

    @cached_property
    def rules(self) -> Rules:
        """What does not depend on the time there is."""
        rules = Rules()
        choose_model(rules, self.dataset, self.candidate)
        choose_augmentation(rules, self.dataset, self.candidate.side, self.mirrored)
        choose_stages(rules, self.dataset, self.base)
        choose_validation(rules, self.dataset)
        choose_engine(rules, self.device)
        so_far = {**self.named, **rules.settings, "data": self.data_of(rules)}
        choose_correction(rules, self.dataset, load_recipe(None, [so_far, *self.asked]))
        return rules

    def data_of(self, rules: Rules) -> Settings:
        """The data, as the rules would have them read."""
        return {"spec": self.dataset.spec, **rules.settings.get("data", {})}

    @property
    def side(self) -> int:
        """Pixels a side of the images that would be trained on."""
        return self.trial.data.size or max(self.dataset.shape[:2])

    @cached_property
    def trial(self) -> Recipe:
        """The recipe of a run of one epoch."""
        return self.recipe(1)

    @property
    def flops(self) -> int:
        """Arithmetic of one image."""
        return cost(architecture(self.trial, self.dataset), self.side, self.side).flops

    @property
    def images(self) -> int:
        """Images that are left to train on."""
        return round(len(self.dataset.train) * (1 - self.trial.selection.split))

    @property
    def judged(self) -> int:
        """Images that are judged after an evaluated epoch."""
        held_out = len(self.dataset.val) if self.dataset.val else len(self.dataset.train) - self.images
        return len(self.dataset.test) + held_out

    @property
    def wanted(self) -> int:
        """Epochs of a first stage that nothing hurries."""
        return wanted_epochs(self.dataset, self.candidate)

    @property
    def least(self) -> int:
        """The fewest epochs that make sense."""
        steps = max(1, self.images // self.trial.stage1.batch)
        return min(self.wanted, max(LEAST, min(MOST_OF_LEAST, -(-LEAST_STEPS // steps))))

    def settings(self, epochs: int, every: int = 1) -> dict[str, Any]:
        """The settings of a run of so many epochs in its first stage, judged every so many epochs."""
        chosen = {table: dict(fields) for table, fields in self.rules.settings.items()}
        chosen |= {**self.named, "data": dict(self.data_of(self.rules))}
        if "stage1.epochs" in fields_of(self.asked):
            epochs = self.base.stage1.epochs
        chosen["stage1"]["epochs"] = epochs
        if "stage2" in chosen:
            chosen["stage2"].setdefault("epochs", max(LEAST_SECOND, round(SHARE * epochs)))
        steps = epochs * len(self.dataset.train) // chosen["stage1"]["batch"]
        if steps < SHORT and self.base.stage1.mixup > SHORT_MIXUP:
            chosen["stage1"]["mixup"] = SHORT_MIXUP
        chosen["selection"]["every"] = every
        return chosen

    def recipe(self, epochs: int, every: int = 1) -> Recipe:
        """The recipe of such a run."""
        return load_recipe(None, [self.settings(epochs, every), *self.asked])

    def reasons(self) -> Iterator[str]:
        """Why it is so, but for what was asked for."""
        fixed = set(fields_of(self.asked))
        yield from (text for key, text in self.rules.reasons if key not in fixed)


def fields_of(tables: Sequence[Settings]) -> Iterator[str]:
    """The fields that settings name, as ``table.field``."""
    for table in tables:
        for key, value in table.items():
            yield from (f"{key}.{inner}" for inner in value) if isinstance(value, Mapping) else (key,)
