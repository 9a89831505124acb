"""The time budget of a run: the option ``--time-budget``, and how many epochs of a draft fit into it."""

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
WORTH_SECONDS, WORTH_SHARE = 1.0, 0.03  # images are left out only if that saves more: seconds, and of the time limit
TIMING_SHARE = 0.25  # of the time that is left for a run; a CPU times candidates for no longer
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
class BudgetedDraft:
    """A draft with its timing and as many epochs as the time limit allows.

    ``left`` is what is left of the limit after the data were read and steps were timed, ``trial`` the seconds that are
    set aside for the head trial. An estimated timing may be wrong by the factor ``doubt``. ``untimed``: there was no
    time to replace it by a measured one.
    """

    draft: Draft
    timing: StepTiming
    limit: float | None
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

    def check(self, budget: float | None) -> None:
        """Refuse a budget in which nothing sensible can be trained, and name the least that makes sense."""
        fewest = self.draft.min_epochs
        asked = "stage1.epochs" in fields_of(self.draft.overrides)
        if not budget or asked or self.left is None or self.affordable_epochs >= fewest:
            return
        missing = self.seconds(fewest) - self.left - self.trial
        if missing > max(MOST_OVERDRAWN * budget, MOST_OVERDRAWN_SECONDS):
            raise UsageError(
                f"a time budget of {duration(budget)} is too short for these {len(self.draft.dataset.train):,} images "
                f"on this machine; the least that makes sense is {budget_text(ROUNDED_UP * (budget + missing))} "
                f"({self.draft.title})"
            )

    def reasons(self, budget: float | None) -> Iterator[str]:
        """The epochs and their estimated time; ``budget`` is None if the limit is the CPU default."""
        recipe, takes = self.recipe(self.epochs), duration(self.seconds(self.epochs))
        expected = f"{epochs_text(recipe)} epochs, about {takes} on this machine"
        limit = f"{'the time budget' if budget else 'the CPU default'} of {duration(self.limit)}"
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
            gain = f"{self.timing.thread_gain:.1f} times as fast as {cores()}"
            yield f"One thread: on this machine it is {gain} at the moment."
        if self.draft.needs_less_mixup(self.epochs) and "stage1.mixup" not in fields_of(self.draft.overrides):
            yield f"Mixup {recipe.stage1.mixup:g}: with fewer than {FEW_STEPS:,} steps, more would slow learning down."


def epochs_text(recipe: Recipe) -> str:
    """The epochs of the stages that have any: "200 + 30"."""
    return " + ".join(str(stage.epochs) for stage in recipe.stages.values() if stage.epochs) or "0"


def time_and_fit(draft: Draft, limit: float | None, started: float) -> BudgetedDraft:
    """Time a few steps of a draft, and fit its epochs into what is left of a limit since ``started``."""
    logger.info("timing %s", draft.title)
    return fit_epochs(draft, time_recipe(draft.one_epoch, draft.dataset, draft.side, draft.device), limit, started)


def fit_pretrained(drafts: Sequence[PretrainedDraft], limit: float | None, started: float) -> list[BudgetedDraft]:
    """Drafts in order of preference, up to the first that is fast enough for the limit, or to the last.

    On a CPU the last one, the cheapest, is timed first: from it the others are estimated, which tells which of them are
    worth timing, and is all that is known of those for which no time is left. A GPU takes seconds to prepare a network
    for another size, so there the first draft is timed at once.
    """
    cheapest, known, tried = drafts[-1], list[KnownTiming](), list[BudgetedDraft]()
    on_cpu = cheapest.device.type == "cpu"
    clock = TimingClock(seconds_left(limit, started) if on_cpu else None, time.perf_counter())
    if on_cpu:
        known.append(KnownTiming(cheapest, time_draft(cheapest)))
    for draft in drafts:
        fitted = without_trial(estimate(draft, known, limit, started), draft) if known else None
        if fitted and fitted.is_much_faster_than_needed:
            return [*tried, fitted]
        measured: StepTiming | None = None
        if draft.trains_head_alone:
            measured = known_features_timing(draft.one_epoch, draft.dataset, draft.side, draft.device)
        just_timed = on_cpu and draft is cheapest and len(known) == 1
        promising = fitted is None or fitted.might_be_fast_enough or draft is cheapest
        if measured is None and promising and not just_timed:
            if fitted is None or clock.has(seconds_to_time(fitted.timing)):
                logger.info("timing %s", draft.title)
                measured = time_draft(draft)
                if on_cpu or not known:
                    known.append(KnownTiming(draft, measured))
            else:
                fitted = replace(fitted, untimed=draft is not cheapest)
        if measured:
            fitted = without_trial(fit_epochs(draft, measured, limit, started), draft)
        assert fitted is not None
        tried.append(fitted)
        if fitted.is_fast_enough:
            break
    return tried


def time_draft(draft: PretrainedDraft) -> StepTiming:
    """Time features of a draft, or a few steps if it trains more than the head."""
    measure = time_features if draft.trains_head_alone else time_recipe
    return measure(draft.one_epoch, draft.dataset, draft.side, draft.device)


@dataclass
class TimingClock:
    """A share of the time that is ``left`` for a run, in which candidates may be timed; None: as long as it takes."""

    left: float | None
    began: float  # by ``time.perf_counter``

    def has(self, seconds: float) -> bool:
        """Whether so many seconds more are within that share."""
        if self.left is None:
            return True
        return time.perf_counter() - self.began + seconds <= TIMING_SHARE * (self.left - START_AND_END)


def fit_slower(
    drafts: Sequence[PretrainedDraft], known: "KnownTiming", limit: float | None, started: float
) -> BudgetedDraft:
    """The first draft that fits on a machine that has become slower, without timing; else the last, on fewer images.

    Args:
        drafts: in order of preference; all train the head alone.
        known: what features take now.
        limit: seconds from ``started`` on.
        started: when the budget started.
    """
    for draft in drafts:
        fitted = without_trial(fit_epochs(draft, known.estimate(draft), limit, started), draft)
        if fitted.is_fast_enough:
            return fitted
    return with_fewer_images(fitted, started)


def with_fewer_images(fitted: BudgetedDraft, started: float) -> BudgetedDraft:
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
    limited = fit_epochs(draft.limited_to(max(most, FEWEST_OF_A_CLASS)), fitted.timing, fitted.limit, started)
    saved = fitted.needed - limited.needed
    return limited if saved > max(WORTH_SECONDS, WORTH_SHARE * (fitted.limit or 0.0)) else fitted


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
        estimate = estimated_timing(draft.one_epoch, factor * self.timing.evaluate, draft.trained_share)
        return replace(estimate, threads=self.timing.threads, thread_gain=self.timing.thread_gain)

    def is_like(self, draft: PretrainedDraft) -> bool:
        """Whether both train the same part of the network on a CPU, where only FLOPs tell them apart."""
        same_part = self.draft.candidate.part == draft.candidate.part
        return same_part and draft.device.type == "cpu" and not draft.trains_head_alone


def estimate(
    draft: PretrainedDraft, known: Sequence[KnownTiming], limit: float | None, started: float
) -> BudgetedDraft:
    """A draft, by the last of the known timings that is like it, else by the first.

    Features follow FLOPs closely, and so do steps that train the same part of the network on a CPU.
    """
    like = next((each for each in reversed(known) if each.is_like(draft)), known[0])
    close = draft.trains_head_alone or like.is_like(draft)
    doubt = 1.0 if like.draft is draft else CLOSE_DOUBT if close else DOUBT
    return replace(fit_epochs(draft, like.estimate(draft), limit, started), doubt=doubt)


def without_trial(fitted: BudgetedDraft, draft: PretrainedDraft) -> BudgetedDraft:
    """The fitted draft with the time of its head trial taken from what is left."""
    if fitted.left is None:
        return fitted
    trial = min(fitted.left, draft.trial_epochs * draft.images * HEAD_SECONDS)
    return replace(fitted, left=fitted.left - trial, trial=trial)


def fit_epochs(draft: Draft, timing: StepTiming, limit: float | None, started: float) -> BudgetedDraft:
    """As ``time_and_fit``, with a known timing."""
    if timing.threads != draft.threads:
        draft = replace(draft, threads=timing.threads)
    return BudgetedDraft(draft, timing, limit, seconds_left(limit, started))


def seconds_left(limit: float | None, started: float) -> float | None:
    """What is left of a limit since ``started``; None without a limit."""
    return None if limit is None else max(0.0, limit - (time.perf_counter() - started))
