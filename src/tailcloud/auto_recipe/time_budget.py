"""The time budget of a run, by ``--time-budget`` or the CPU default, and how many epochs of a draft fit into it."""

import logging
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from tailcloud.auto_recipe.draft import FEW_STEPS, Draft, fields_of
from tailcloud.auto_recipe.pretrained_draft import PretrainedDraft
from tailcloud.auto_recipe.timing import (
    HEAD_SECONDS,
    RESERVE,
    START_AND_END,
    StepTiming,
    estimated_timing,
    known_features_timing,
    seconds_to_time,
    time_features,
    time_recipe,
)
from tailcloud.errors import UsageError
from tailcloud.formatting import duration
from tailcloud.recipe import Recipe
from tailcloud.training.devices import cores

UNITS = {"s": 1, "m": 60, "h": 3600}
MAX_SECONDS = 1000 * 3600
MOST_OVERDRAWN, ROUNDED_UP = 0.15, 1.1  # of a budget
MOST_OVERDRAWN_SECONDS = 10.0  # of a short one
DOUBT, CLOSE_DOUBT = 2.0, 1.3  # factors by which estimated seconds may be wrong
FEWEST_OF_A_CLASS = 20  # images that stay if large classes are limited
WORTH_SECONDS, WORTH_SHARE = 1.0, 0.03  # images are left out only if that saves more: seconds, and of the time budget
TIMING_SHARE = 0.25  # of the time that is left for a run, in which a CPU times candidates
MAX_EVALUATION_SHARE, MIN_EVALUATIONS = 0.1, 10  # of the training time; but at least so many a stage

logger = logging.getLogger(__name__)


def parse_budget(text: str) -> float:
    """Seconds of "90s", "10m", "1.5h" or "1h30m"."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'--time-budget "{text}" is not a time; write for example 90s, 10m, 1.5h or 1h30m')
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f'--time-budget "{text}" must be more than 0 s and at most {MAX_SECONDS // 3600}h')
    return seconds


def budget_text(seconds: float) -> str:
    """Seconds, rounded up, as ``parse_budget`` reads them."""
    return f"{ceil(seconds)}s" if seconds <= 120 else f"{ceil(seconds / 60)}m"


@dataclass(frozen=True)
class TimeBudget:
    """The time that a run may take.

    Args:
        seconds: so many from ``started`` on; None: any time.
        started: by ``time.perf_counter``.
        asked: whether the user has set it; if not, it is the default of a CPU.
    """

    seconds: float | None
    started: float
    asked: bool = False

    @property
    def left(self) -> float | None:
        """Seconds that are left now; None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.perf_counter() - self.started))

    def share(self, share: float) -> float | None:
        """A share of the seconds; None without a limit."""
        return None if self.seconds is None else share * self.seconds


@dataclass(frozen=True)
class BudgetedDraft:
    """A draft with its timing and as many epochs as the time budget allows.

    ``left`` is what is left of the budget after the data were read and steps were timed, ``trial`` the seconds that are
    set aside for the head trial. An estimated timing may be wrong by the factor ``doubt``. ``untimed``: there was no
    time to replace it by a measured one.
    """

    draft: Draft
    timing: StepTiming
    budget: TimeBudget
    left: float | None
    trial: float = 0.0
    doubt: float = 1.0
    untimed: bool = False

    @cached_property
    def affordable_epochs(self) -> int:
        """The epochs of the first stage: the default, or with a limit the most that fit into what is left of it."""
        if self.left is None:
            return self.draft.default_epochs
        fitting, beyond = 0, self.draft.most_epochs + 1
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            fitting, beyond = (middle, beyond) if self.seconds(middle) <= self.left else (fitting, middle)
        return fitting

    @property
    def epochs(self) -> int:
        """Epochs of the first stage: those that fit, but not fewer than the minimum."""
        return max(self.affordable_epochs, self.draft.min_epochs)

    def evaluation_interval(self, epochs: int) -> int:
        """Epochs between two evaluations: 1, or more if an evaluation takes long."""
        training = self.draft.images * self.timing.train["stage1"]
        evaluation = self.draft.evaluated_images * self.timing.evaluate
        if not training:  # the user set epochs to 0
            return 1
        return max(1, min(ceil(evaluation / (MAX_EVALUATION_SHARE * training)), epochs // MIN_EVALUATIONS))

    def recipe(self, epochs: int) -> Recipe:
        """The recipe with that many epochs in its first stage."""
        return self.draft.recipe(epochs, self.evaluation_interval(epochs))

    def seconds(self, epochs: int) -> float:
        """The estimated time of that run."""
        return self.timing.seconds(self.recipe(epochs), self.draft.images, self.draft.evaluated_images)

    @property
    def settings(self) -> dict[str, Any]:
        """The chosen settings."""
        return self.draft.settings(self.epochs, self.evaluation_interval(self.epochs))

    @property
    def needed(self) -> float:
        """Seconds in which enough epochs fit, also if the machine turns a little slower."""
        return self.draft.margin * self.seconds(ceil(self.draft.enough_epochs))

    @property
    def is_fast_enough(self) -> bool:
        """Whether enough epochs fit into the limit, also if the timing is an estimate that is too low."""
        return self.left is None or self.doubt * self.needed <= self.left

    @property
    def might_be_fast_enough(self) -> bool:
        """Whether enough epochs fit if the timing is an estimate that is too high."""
        return self.left is None or self.needed <= self.doubt * self.left

    @property
    def is_much_faster_than_needed(self) -> bool:
        """Whether an estimate that is wrong by a factor of three still fits."""
        return self.left is None or 3 * self.seconds(self.draft.most_epochs) <= self.left

    @property
    def stage_seconds(self) -> dict[str, float]:
        """The estimated time of each stage."""
        return self.timing.stage_seconds(self.recipe(self.epochs), self.draft.images, self.draft.evaluated_images)

    def check(self) -> None:
        """Refuse a budget of the user in which nothing sensible can be trained, and name the least that makes sense."""
        fewest, budget = self.draft.min_epochs, self.budget.seconds
        fixed = "stage1.epochs" in fields_of(self.draft.overrides)
        if not self.budget.asked or budget is None or fixed or self.left is None or self.affordable_epochs >= fewest:
            return
        missing = self.seconds(fewest) - self.left - self.trial
        if missing > max(MOST_OVERDRAWN * budget, MOST_OVERDRAWN_SECONDS):
            raise UsageError(
                f"a time budget of {duration(budget)} is too short for these {len(self.draft.dataset.train):,} images "
                f"on this machine; the least that makes sense is {budget_text(ROUNDED_UP * (budget + missing))} "
                f"({self.draft.title})"
            )

    def reasons(self) -> Iterator[str]:
        """The epochs and their estimated time."""
        recipe, takes = self.recipe(self.epochs), duration(self.seconds(self.epochs))
        expected = f"{epochs_text(recipe)} epochs, about {takes} on this machine"
        limit = f"{'the time budget' if self.budget.asked else 'the CPU default'} of {duration(self.budget.seconds)}"
        if "stage1.epochs" in fields_of(self.draft.overrides) or not recipe.stage1.epochs:  # class means train nothing
            yield f"{expected}."
        elif self.affordable_epochs < self.draft.min_epochs:
            left = f"{duration(self.left)} of {limit} are left"
            yield f"{expected}; {left}, but fewer than {self.draft.min_epochs} epochs would train too little."
        elif self.affordable_epochs < self.draft.default_epochs:
            yield f"{expected}, to fit {limit}; {self.draft.default_epochs} need a longer --time-budget."
        elif self.affordable_epochs < self.draft.most_epochs and self.left is not None:
            yield f"{expected}, as many as fit {limit}."
        else:
            yield f"{expected}; more are not needed for these data."
        if self.timing.threads and "engine.threads" not in fields_of(self.draft.overrides):
            gain = f"{self.timing.thread_gain:.1f} times as fast as {cores()} threads"
            yield f"One thread: on this machine it is {gain} at the moment."
        if self.draft.needs_less_mixup(self.epochs) and "stage1.mixup" not in fields_of(self.draft.overrides):
            yield f"Mixup {recipe.stage1.mixup:g}: with fewer than {FEW_STEPS:,} steps, more would slow learning down."


def epochs_text(recipe: Recipe) -> str:
    """The epochs of the stages that have any: "200 + 30"."""
    return " + ".join(str(stage.epochs) for stage in recipe.stages.values() if stage.epochs) or "0"


def time_and_fit(draft: Draft, budget: TimeBudget) -> BudgetedDraft:
    """Time a few steps of a draft, and fit its epochs into what is left of a budget."""
    logger.info("timing %s", draft.title)
    return fit_epochs(draft, time_recipe(draft.one_epoch, draft.dataset, draft.side, draft.device), budget)


def fit_pretrained(drafts: Sequence[PretrainedDraft], budget: TimeBudget) -> list[BudgetedDraft]:
    """Drafts in order of preference, up to the first that is fast enough for the budget, or to the last.

    On a CPU the last one, the cheapest, is timed first: from it the others are estimated, which tells which of them are
    worth timing, and is all that is known of those for which no time is left. A GPU takes seconds to prepare a network
    for another size, so there the first draft is timed at once.
    """
    timer, tried = DraftTimer(drafts[-1], budget), list[BudgetedDraft]()
    for draft in drafts:
        tried.append(timer.fit(draft))
        if tried[-1].is_fast_enough:
            break
    return tried


class DraftTimer:
    """Fits drafts into a budget, and times those that are worth it.

    On a CPU timing takes ``TIMING_SHARE`` of the time that is left for the run, and no longer.
    """

    def __init__(self, cheapest: PretrainedDraft, budget: TimeBudget) -> None:
        self.cheapest, self.budget, self.known = cheapest, budget, list[KnownTiming]()
        self.on_cpu, left = cheapest.device.type == "cpu", budget.left
        self.ends: float | None = None  # no timing of a CPU may last longer, by ``time.perf_counter``
        if self.on_cpu and left is not None:
            self.ends = time.perf_counter() + TIMING_SHARE * (left - START_AND_END)
        if self.on_cpu:
            self.known.append(KnownTiming(cheapest, time_draft(cheapest)))

    def fit(self, draft: PretrainedDraft) -> BudgetedDraft:
        """The draft with its timing: a measured one, or an estimate if that is enough or no time is left."""
        estimated = without_trial(estimate(draft, self.known, self.budget), draft) if self.known else None
        if estimated and estimated.is_much_faster_than_needed:
            return estimated
        timing: StepTiming | None = None
        if draft.trains_head_alone:
            timing = known_features_timing(draft.one_epoch, draft.dataset, draft.side, draft.device)
        if estimated and timing is None:
            just_timed = self.on_cpu and draft is self.cheapest and len(self.known) == 1
            if just_timed or not (estimated.might_be_fast_enough or draft is self.cheapest):
                return estimated
            if not self.has(seconds_to_time(estimated.timing)):
                return replace(estimated, untimed=draft is not self.cheapest)
        if timing is None:
            logger.info("timing %s", draft.title)
            timing = time_draft(draft)
            if self.on_cpu or not self.known:
                self.known.append(KnownTiming(draft, timing))
        return without_trial(fit_epochs(draft, timing, self.budget), draft)

    def has(self, seconds: float) -> bool:
        """Whether a timing of so many seconds would end in time."""
        return self.ends is None or time.perf_counter() + seconds <= self.ends


def time_draft(draft: PretrainedDraft) -> StepTiming:
    """Time features of a draft, or a few steps if it trains more than the head."""
    measure = time_features if draft.trains_head_alone else time_recipe
    return measure(draft.one_epoch, draft.dataset, draft.side, draft.device)


def fit_slower(drafts: Sequence[PretrainedDraft], known: "KnownTiming", budget: TimeBudget) -> BudgetedDraft:
    """The first draft that fits on a machine that has become slower, without timing; else the last, on fewer images.

    Args:
        drafts: in order of preference; all train the head alone.
        known: what features take now.
        budget: the time of the run.
    """
    for draft in drafts:
        fitted = without_trial(fit_epochs(draft, known.estimate(draft), budget), draft)
        if fitted.is_fast_enough:
            return fitted
    return with_fewer_images(fitted)


def with_fewer_images(fitted: BudgetedDraft) -> BudgetedDraft:
    """The draft on fewer images of the largest classes, as many as fit; small classes keep all of theirs.

    The time of the head trial goes to images first: they give more. ``FEWEST_OF_A_CLASS`` are taken even if they do not
    fit. Unchanged if it fits, or if images cannot be left out.
    """
    draft = fitted.draft
    if fitted.is_fast_enough or fitted.left is None or not isinstance(draft, PretrainedDraft) or not draft.limitable:
        return fitted
    fitted = replace(fitted, left=fitted.left + fitted.trial, trial=0.0)
    if fitted.left is None or fitted.is_fast_enough:
        return fitted
    counts = draft.dataset.profile.counts
    fixed = START_AND_END + (1 + RESERVE) * draft.evaluated_images * fitted.timing.evaluate
    share = (fitted.left - fixed) / (fitted.needed - fixed)
    limits = range(1, int(counts.max()))
    most = bisect_right(limits, share * counts.sum(), key=lambda limit: np.minimum(counts, limit).sum())
    limited = fit_epochs(draft.limited_to(max(most, FEWEST_OF_A_CLASS)), fitted.timing, fitted.budget)
    saved = fitted.needed - limited.needed
    return limited if saved > max(WORTH_SECONDS, fitted.budget.share(WORTH_SHARE) or 0.0) else fitted


@dataclass(frozen=True)
class KnownTiming:
    """A draft that was timed, from which others are estimated."""

    draft: PretrainedDraft
    timing: StepTiming

    def estimate(self, draft: PretrainedDraft) -> StepTiming:
        """The timing of another draft by its FLOPs and by the part that it trains."""
        factor = draft.flops / self.draft.flops
        if self.is_like(draft):
            return self.timing.scaled(factor)
        estimate = estimated_timing(draft.one_epoch, factor * self.timing.evaluate, draft.passes)
        return replace(estimate, threads=self.timing.threads, thread_gain=self.timing.thread_gain)

    def is_like(self, draft: PretrainedDraft) -> bool:
        """Whether both train the same part of the network on a CPU, where only FLOPs tell them apart."""
        same_part = self.draft.candidate.part == draft.candidate.part
        return same_part and draft.device.type == "cpu" and not draft.trains_head_alone


def estimate(draft: PretrainedDraft, known: Sequence[KnownTiming], budget: TimeBudget) -> BudgetedDraft:
    """A draft, by the last of the known timings that is like it, else by the first.

    Features follow FLOPs closely, and so do steps that train the same part of the network on a CPU.
    """
    like = next((each for each in reversed(known) if each.is_like(draft)), known[0])
    close = draft.trains_head_alone or like.is_like(draft)
    doubt = 1.0 if like.draft is draft else CLOSE_DOUBT if close else DOUBT
    return replace(fit_epochs(draft, like.estimate(draft), budget), doubt=doubt)


def without_trial(fitted: BudgetedDraft, draft: PretrainedDraft) -> BudgetedDraft:
    """The fitted draft with the time of its head trial taken from what is left."""
    if fitted.left is None:
        return fitted
    trial = min(fitted.left, draft.trial_epochs * draft.images * HEAD_SECONDS)
    return replace(fitted, left=fitted.left - trial, trial=trial)


def fit_epochs(draft: Draft, timing: StepTiming, budget: TimeBudget) -> BudgetedDraft:
    """As ``time_and_fit``, with a known timing."""
    if timing.threads != draft.threads:
        draft = replace(draft, threads=timing.threads)
    return BudgetedDraft(draft, timing, budget, budget.left)
