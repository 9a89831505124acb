"""The choice of a recipe for a data set, a device and a time budget, with reasons."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch

from tailcloud.auto_recipe.candidates import is_user_data, pretrained_candidates, scratch_candidates
from tailcloud.auto_recipe.draft import Draft, Settings, fields_of
from tailcloud.auto_recipe.fit_test import CENTER, run_fit_test
from tailcloud.auto_recipe.flip_test import run_flip_test
from tailcloud.auto_recipe.head_trial import FOLDS, session_with_features, time_head, try_heads
from tailcloud.auto_recipe.pretrained_draft import (
    DEFAULT_METHOD,
    FEW_IMAGES,
    HEAD_METHODS,
    PretrainedDraft,
)
from tailcloud.auto_recipe.rules import BALANCED_RATIO, describe_data
from tailcloud.auto_recipe.time_budget import (
    DOUBT,
    FEWEST_OF_A_CLASS,
    BudgetedDraft,
    KnownTiming,
    TimeBudget,
    fit_epochs,
    fit_pretrained,
    fit_slower,
    time_and_fit,
    with_fewer_images,
)
from tailcloud.auto_recipe.timing import HEAD_SECONDS, START_AND_END
from tailcloud.data import Dataset
from tailcloud.errors import UsageError
from tailcloud.formatting import counted, duration
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.training.devices import cores, using_threads
from tailcloud.training.features.run_features import TooSlow
from tailcloud.training.stages.cost import BACKWARD, FORWARD

DEFAULT_CPU_BUDGET = 1800.0  # seconds
FALLBACK_METHOD = "logit-adjust-posthoc"  # if too few epochs fit for GCL
FIT_TEST_BUDGET = 60.0  # seconds; with less, the whole picture is read untested
TRIAL_SHARE = 0.3  # of the time that is left after features are computed
HEAD_SHARE = 0.1  # of a time budget, kept for the head, its evaluation and the report while features are computed
FLIP_IMAGES = 5  # per second of a time budget: the flip test takes no more
FIT_TEST_SHARE = 0.1  # of a time budget, after which the fit test ends with the images that it has
NOMINAL_CORE, NOMINAL_GPU = 16e9, 4e12  # FLOPs a second that small networks reach in training

AnyDraft = TypeVar("AnyDraft", bound=Draft)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """Settings that complete the default recipe of the data, a sentence for each decision, and the expected seconds.

    ``stage_seconds`` are those of each stage, ``finishing_seconds`` those after the last one.
    """

    settings: dict[str, Any]
    reasons: list[str]
    stage_seconds: dict[str, float]
    finishing_seconds: float = START_AND_END / 2  # the other half is needed before the first stage

    @property
    def seconds(self) -> float:
        """The expected time of the whole run."""
        return sum(self.stage_seconds.values()) + START_AND_END


def choose(
    dataset: Dataset,
    device: torch.device,
    budget: float | None = None,
    overrides: Sequence[Settings] = (),
    started: float | None = None,
    open_data: Callable[[Recipe], Dataset] | None = None,
    *,
    resizable: bool = True,
) -> Choice:
    """Choose network, weights, image size, batch size, epochs, augmentation, method and validation split.

    Args:
        dataset: the data set before anything is held out.
        device: where the run will compute; a few steps are timed there.
        budget: seconds that the run may take; by default half an hour on a CPU and no limit on a GPU.
        overrides: settings of the user, which replace chosen ones.
        started: when the budget started, by ``time.perf_counter``; by default now.
        open_data: opens the data of a recipe, so that heads can be tried on features; None: none is tried.
        resizable: whether the data can be read at another size.
    """
    seconds = budget or (DEFAULT_CPU_BUDGET if device.type == "cpu" else None)
    time_budget = TimeBudget(seconds, time.perf_counter() if started is None else started, asked=bool(budget))
    base = load_recipe(None, [{"data": dataset.spec}, *overrides])
    flips = run_flip_test(dataset.train, None if seconds is None else int(FLIP_IMAGES * seconds))
    fields = set(fields_of(overrides))
    candidates = pretrained_candidates(dataset, device, base, fields, resizable=resizable)
    if candidates:
        method = None if "method" in fields else DEFAULT_METHOD
        may_limit = time_budget.asked and resizable and is_user_data(dataset) and "data.max_count" not in fields
        draft = partial(PretrainedDraft, budgeted=time_budget.asked, may_limit=may_limit)
        drafts = [draft(dataset, each, device, flips, overrides, method) for each in candidates]
        if open_data and "data.fit" not in fields and (seconds is None or seconds >= FIT_TEST_BUDGET):
            drafts = with_better_fit(drafts, time_budget.share(FIT_TEST_SHARE))
        drafts, frozen = frozen_if_few(unique(usable(drafts)), fields)
        skipped, best, trial = fit_with_head(drafts, time_budget, open_data)
        why = [*frozen, *too_slow(skipped, best), *best.draft.reasons(), *trial, *best.reasons()]
    else:
        networks = scratch_candidates(dataset, device, base, resizable=resizable)
        scratch = [Draft(dataset, each, device, flips, overrides) for each in networks]
        *skipped, best = fit_first_fast_enough(unique(scratch), time_budget)
        best = with_fallback(best)
        best.check()
        before = [*scratch_reason(dataset, base), *too_slow(skipped, best), *fallback_reason(best)]
        why = [*before, *best.draft.reasons(), *best.reasons()]
    return Choice(best.settings, [describe_data(dataset), *why], best.stage_seconds)


def with_better_fit(drafts: Sequence[PretrainedDraft], seconds: float | None = None) -> list[PretrainedDraft]:
    """The drafts that read whole pictures read their centers instead if that is better; others stay as they are.

    The test ends after so many ``seconds``; None: when it has all of its images.
    """
    if not drafts[-1].candidate.fit:
        return list(drafts)
    logger.info("comparing the whole picture with its center")
    test = run_fit_test(drafts[-1], seconds)
    if test is None:
        return list(drafts)
    fit = CENTER if test.center_is_better else drafts[-1].candidate.fit
    tested = [replace(draft.candidate, fit=fit, fit_evidence=test.evidence()) for draft in drafts]
    return [replace(draft, candidate=candidate) for draft, candidate in zip(drafts, tested, strict=True)]


def usable(drafts: Sequence[AnyDraft]) -> list[AnyDraft]:
    """The drafts whose recipes are valid: a method, or an override, may not work with a part of the candidates.

    Raises:
        UsageError: there is none; the error of the first.
    """
    kept, errors = [], []
    for draft in drafts:
        try:
            _ = draft.one_epoch
        except UsageError as error:
            errors.append(error)
        else:
            kept.append(draft)
    if not kept:
        raise errors[0]
    return kept


def unique(drafts: Sequence[AnyDraft]) -> list[AnyDraft]:
    """The drafts without those that are the same because of the overrides."""
    kept: list[AnyDraft] = []
    for draft in drafts:
        kept += [draft] if not any(same_model(draft, other) for other in kept) else []
    return kept


def same_model(one: Draft, other: Draft) -> bool:
    """Whether two drafts are the same because of the overrides."""
    first, second = one.one_epoch, other.one_epoch
    return (first.model, one.side, first.stage1.train) == (second.model, other.side, second.stage1.train)


def frozen_if_few(
    drafts: Sequence[PretrainedDraft], fields: Collection[str]
) -> tuple[list[PretrainedDraft], list[str]]:
    """Only the drafts whose network stays frozen, and a sentence, if there are too few images to train more.

    All of them if the user says what is trained, or if nothing would be left.
    """
    kept = [draft for draft in drafts if draft.trains_head_alone or draft.has_enough_images]
    if "stage1.train" in fields or not kept or len(kept) == len(drafts):
        return list(drafts), []
    few = f"Fewer than {FEW_IMAGES} training images are too few to train the network"
    return kept, [f"{few} (--set stage1.train=all trains it anyway)."]


def fit_first_fast_enough(drafts: Sequence[Draft], budget: TimeBudget) -> list[BudgetedDraft]:
    """Drafts in order of preference, up to the first that is fast enough for the budget, or to the last.

    The last one, the cheapest, is timed first: its timing tells which of the others are worth timing.
    """
    if budget.seconds is None or len(drafts) == 1:
        return [time_and_fit(drafts[0], budget)]
    cheapest, tried = time_and_fit(drafts[-1], budget), []
    for draft in drafts[:-1]:
        fitted = fit_epochs(draft, cheapest.timing.scaled(draft.flops / drafts[-1].flops), budget)
        fitted = replace(fitted, doubt=DOUBT)
        if fitted.might_be_fast_enough or draft.device.type == "cuda":  # where FLOPs say little about time
            fitted = time_and_fit(draft, budget)
        tried.append(fitted)
        if fitted.is_fast_enough:
            return tried
    return [*tried, fit_epochs(drafts[-1], cheapest.timing, budget)]


def fit_with_head(
    drafts: Sequence[PretrainedDraft], budget: TimeBudget, open_data: Callable[[Recipe], Dataset] | None
) -> tuple[list[BudgetedDraft], BudgetedDraft, list[str]]:
    """The drafts that are too slow, the first that fits, and the reason for its head.

    Features of a network that stays as it is are computed here. If they take much longer than planned, because the
    machine has become busy, the next draft is taken.
    """
    *skipped, best = fit_pretrained(drafts, budget)
    best = with_fewer_images(best)
    best.check()
    draft = best.draft
    if open_data is None or not isinstance(draft, PretrainedDraft) or not draft.trains_head_alone:
        trial = f"Of {len(HEAD_METHODS)} heads the best on held-out images is taken: {', '.join(HEAD_METHODS)}."
        return skipped, best, [trial] if isinstance(draft, PretrainedDraft) and draft.tries_heads else []
    smaller = [each for each in drafts if each.flops < draft.flops and each.trains_head_alone]
    may_fail = bool(smaller) or can_be_limited(draft)
    while True:
        try:
            return skipped, *with_features(best, draft, open_data, may_fail=may_fail)
        except TooSlow as slow:
            logger.info("features at %s pixels take too long on this machine now", draft.side)
            known = KnownTiming(draft, replace(best.timing, evaluate=slow.seconds))
            skipped.append(replace(best, timing=known.estimate(draft)))
            before, best = draft, fit_slower(smaller or [draft], known, budget)
            assert isinstance(best.draft, PretrainedDraft)
            draft, smaller = best.draft, [each for each in smaller if each.flops < best.draft.flops]
            changed = (draft.side, draft.max_count) != (before.side, before.max_count)
            may_fail = changed and (bool(smaller) or can_be_limited(draft))


def can_be_limited(draft: PretrainedDraft) -> bool:
    """Whether more images can be left out."""
    return draft.limitable and draft.dataset.profile.counts.max() > FEWEST_OF_A_CLASS


def with_features(
    fitted: BudgetedDraft, draft: PretrainedDraft, open_data: Callable[[Recipe], Dataset], *, may_fail: bool
) -> tuple[BudgetedDraft, list[str]]:
    """The draft with its features computed and, if it tries heads, with the best head; and the reason for that.

    Raises:
        TooSlow: features take longer than the time that is left for them, and that ``may_fail``.
    """
    names = list(HEAD_METHODS) if draft.tries_heads else [draft.base.method]
    drafts = {name: replace(draft, method=name) for name in names}
    recipes = {name: each.recipe(each.default_epochs) for name, each in drafts.items()}
    first, reserved = recipes[names[0]], fitted.budget.share(HEAD_SHARE) or 0.0
    with using_threads(torch.get_num_threads()):  # a session sets them, and choosing must not change them
        dataset = open_data(first)
        left = fitted.budget.left
        longest = max(0.0, left - reserved) if may_fail and left is not None else None
        session = session_with_features(first, dataset, draft.device, logger.info, longest)
        pace = time_head(first, session) if any(stage.epochs for stage in first.stages.values()) else HEAD_SECONDS
        left = fitted.budget.left
        seconds = None if left is None else min(TRIAL_SHARE * left, left - reserved)
        trial = None
        if len(names) > 1 and (seconds is None or pace * trial_images(recipes, len(dataset.train)) <= seconds):
            trial = try_heads(recipes, session, seconds)
    best = trial.best if trial else names[0]
    computed = replace(fitted.timing, train=dict.fromkeys(recipes[best].stages, pace), evaluate=0.0)
    reasons = [trial.reason()] if trial else [f"Head: {best}; too little time is left to compare others."]
    return fit_epochs(drafts[best], computed, fitted.budget), reasons if len(names) > 1 else []


def trial_images(recipes: Mapping[str, Recipe], images: int) -> float:
    """How many images, each as often as it is seen, one fold of the head trial trains on."""
    epochs = sum(stage.epochs for recipe in recipes.values() for stage in recipe.stages.values())
    return epochs * images * (FOLDS - 1) / FOLDS


def too_slow(skipped: Sequence[BudgetedDraft], best: BudgetedDraft) -> list[str]:
    """Which larger candidates were skipped, and how many of them untimed, and which one is taken; nothing if none."""
    skipped = [each for each in skipped if each.draft.candidate != best.draft.candidate]
    if not skipped:
        return []
    titles, untimed = [each.draft.title for each in skipped], sum(each.untimed for each in skipped)
    which = " and ".join(titles) if len(titles) <= 2 else f"from {titles[0]} to {titles[-1]}"
    one = len(titles) == 1
    fails = [f"{'does' if one else 'do'} not fit into {duration(best.budget.seconds)}"] if untimed < len(titles) else []
    if untimed:
        number = f" ({untimed})" if fails else ""
        fails.append(f"{'was' if one else 'were'} not timed for lack of time{number}")
    candidates = counted(len(titles), "larger candidate")
    return [f"{candidates}, {which}, {', or '.join(fails)}; chosen: {best.draft.title}."]


def scratch_reason(dataset: Dataset, base: Recipe) -> Iterator[str]:
    """Why the network is trained from scratch, for a user's own images."""
    if is_user_data(dataset) and not base.model.weights:
        yield (
            "The network is trained from scratch, because no pretrained weights suit these images or this network; "
            '"tailcloud weights ls" lists those that there are.'
        )


def with_fallback(fitted: BudgetedDraft) -> BudgetedDraft:
    """The same model with the fallback method if too few epochs fit, else the draft unchanged.

    GCL, mixup and a second stage need many epochs. A method, or any field of a stage, that the user sets is kept.
    Whether epochs are too few is judged by what such a machine can do, not by what it does at the moment: the method
    must not depend on what else it computes.
    """
    draft = fitted.draft
    fixed = any(field == "method" or field.startswith("stage") for field in fields_of(draft.overrides))
    limit = fitted.budget.seconds
    enough = limit is None or nominal_seconds(draft) <= limit
    if enough or fixed or draft.dataset.profile.ratio < BALANCED_RATIO:
        return fitted
    return time_and_fit(replace(draft, method=FALLBACK_METHOD), fitted.budget)  # its steps are faster


def nominal_seconds(draft: Draft) -> float:
    """The time of enough epochs of a draft on a machine like this one that does nothing else, roughly."""
    speed = NOMINAL_GPU if draft.device.type == "cuda" else NOMINAL_CORE * cores()
    return (FORWARD + BACKWARD) * draft.flops * draft.images * draft.enough_epochs / speed


def fallback_reason(fitted: BudgetedDraft) -> Iterator[str]:
    """Why the fallback method was chosen; nothing if it was not."""
    if fitted.draft.method:
        epochs = round(fitted.draft.enough_epochs)
        yield f"Logit-adjusted cross-entropy instead of GCL, which needs at least {epochs} epochs."
