"""How many epochs of a draft fit into a time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from tailcloud.auto_recipe.draft import SHORT, Draft, fields_of
from tailcloud.auto_recipe.timing import Pace, measure
from tailcloud.formatting import duration
from tailcloud.recipe import Recipe

JUDGING, EVALUATIONS = 0.1, 10  # judging takes at most this share of an epoch, or happens so many times in a stage
COMFORTABLE = 0.3  # a model that can train this share of the epochs it wants is worth its time


@dataclass(frozen=True)
class Fitted:
    """A draft with as many epochs as fit: ``affordable`` may be fewer than make sense, ``epochs`` never are."""

    draft: Draft
    pace: Pace
    limit: float | None
    left: float | None  # of the limit, after looking at the data and timing

    @cached_property
    def affordable(self) -> int:
        """The most epochs of the first stage, up to those wanted, that the limit allows; 0 if none."""
        fitting, beyond = 0, self.draft.wanted + 1
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            fits = self.left is None or self.seconds_of(middle) <= self.left
            fitting, beyond = (middle, beyond) if fits else (fitting, middle)
        return fitting

    @property
    def epochs(self) -> int:
        """Epochs of the first stage."""
        return max(self.affordable, self.draft.least)

    def every(self, epochs: int) -> int:
        """How often the model is judged: after each epoch, or more seldom where that takes long."""
        training = self.draft.images * self.pace.image["stage1"]
        judging = self.draft.judged * self.pace.judged
        if not training:  # no epochs, as somebody asked for
            return 1
        return max(1, min(ceil(judging / (JUDGING * training)), epochs // EVALUATIONS))

    def recipe_of(self, epochs: int) -> Recipe:
        """The recipe with so many epochs."""
        return self.draft.recipe(epochs, self.every(epochs))

    def seconds_of(self, epochs: int) -> float:
        """What that should take."""
        return self.pace.seconds(self.recipe_of(epochs), self.draft.images, self.draft.judged)

    @property
    def settings(self) -> dict[str, Any]:
        """What is chosen."""
        return self.draft.settings(self.epochs, self.every(self.epochs))

    @property
    def comfortable(self) -> bool:
        """Whether enough of the wanted epochs fit for this model to be worth its time."""
        return self.affordable >= COMFORTABLE * self.draft.wanted

    def reasons(self, budget: float | None) -> Iterator[str]:
        """How long it trains, and why; what to do where the time is too short."""
        recipe, takes = self.recipe_of(self.epochs), duration(self.seconds_of(self.epochs))
        epochs = f"{epochs_of(recipe)} epochs"
        whose = "the budget" if budget else "what a CPU gets unasked"
        if "stage1.epochs" in fields_of(self.draft.asked):
            yield f"{epochs} should take {takes} here."
        elif self.affordable < self.draft.least:
            least = f"fewer than {self.draft.least} make no sense, so this takes longer than {whose}"
            left = f"of {duration(self.limit)} {duration(self.left)} are left"
            yield f"{epochs} should take {takes} here, and {left}: {least}."
        elif self.affordable < self.draft.wanted:
            more = f"{self.draft.wanted} would be better, with a longer --time-budget"
            yield f"{epochs} should take {takes} here, and {duration(self.limit)} is {whose}; {more}."
        else:
            yield f"{epochs}, as many as the data want, should take {takes} here."
        if "mixup" in self.settings["stage1"] and "stage1.mixup" not in fields_of(self.draft.asked):
            reason = f"fewer than {SHORT:,} steps have no time for more"
            yield f"Mixup, which blends two images, is {recipe.stage1.mixup:g}: {reason}."


def epochs_of(recipe: Recipe) -> str:
    """The epochs of the stages that have any: "200 + 30"."""
    return " + ".join(str(stage.epochs) for stage in recipe.stages.values() if stage.epochs) or "0"


def fit(draft: Draft, limit: float | None, started: float) -> Fitted:
    """Time a few steps of a draft, and see how much of it fits into what is left of a limit since ``started``."""
    return fit_at(draft, measure(draft.trial, draft.dataset, draft.side, draft.device), limit, started)


def fit_at(draft: Draft, pace: Pace, limit: float | None, started: float) -> Fitted:
    """The same at a pace that is known."""
    left = None if limit is None else max(0.0, limit - (time.perf_counter() - started))
    return Fitted(draft, pace, limit, left)
