"""The choice of a recipe for a data set, a device and a time budget, with reasons."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tailcloud.auto_recipe.candidates import candidates, needs_pretraining, pretraining_hint
from tailcloud.auto_recipe.draft import Draft, Settings, fields_of
from tailcloud.auto_recipe.flip_test import run_flip_test
from tailcloud.auto_recipe.rules import BALANCED_RATIO, describe_data
from tailcloud.auto_recipe.time_budget import MIN_EPOCH_SHARE, BudgetedDraft, fit_epochs, time_and_fit
from tailcloud.data import Dataset
from tailcloud.formatting import duration
from tailcloud.recipe import load_recipe

DEFAULT_CPU_BUDGET = 1800.0  # seconds
FALLBACK_METHOD = "logit-adjust-posthoc"  # if too few epochs fit for GCL


@dataclass(frozen=True)
class Choice:
    """Settings that complete the default recipe of the data, a sentence for each decision, and the expected seconds."""

    settings: dict[str, Any]
    reasons: list[str]
    seconds: float


def choose(
    dataset: Dataset,
    device: torch.device,
    budget: float | None = None,
    overrides: Sequence[Settings] = (),
    started: float | None = None,
) -> Choice:
    """Choose backbone, image size, batch size, epochs, augmentation, second stage and validation split.

    Args:
        dataset: the data set before anything is held out.
        device: where the run will compute; a few steps are timed there.
        budget: seconds that the run may take; by default half an hour on a CPU and no limit on a GPU.
        overrides: settings of the user, which replace chosen ones.
        started: when the budget started, by ``time.perf_counter``; by default now.
    """
    started = time.perf_counter() if started is None else started
    base = load_recipe(None, [{"data": dataset.spec}, *overrides])
    limit = budget or (DEFAULT_CPU_BUDGET if device.type == "cpu" else None)
    flips = run_flip_test(dataset.train)
    drafts: list[Draft] = []
    for candidate in candidates(dataset, device, base):
        draft = Draft(dataset, candidate, device, flips, overrides)
        drafts += [draft] if not any(same_model(draft, other) for other in drafts) else []
    *skipped, fitted = fit_first_fast_enough(drafts, limit, started)
    best = with_fallback(fitted, started)
    why = [*skipped_reason(skipped), *fallback_reason(best), *best.draft.reasons(), *best.reasons(budget)]
    reasons = [describe_data(dataset), *why]
    if needs_pretraining(dataset) and not best.draft.one_epoch.model.weights:
        reasons.append(pretraining_hint(base.root))
    return Choice(best.settings, reasons, best.seconds(best.epochs))


def fit_first_fast_enough(drafts: Sequence[Draft], limit: float | None, started: float) -> list[BudgetedDraft]:
    """Drafts in order of preference, up to the first that is fast enough for the limit, or to the last.

    The last one, the cheapest, is timed first: its timing tells which of the others are worth timing.
    """
    if limit is None or len(drafts) == 1:
        return [time_and_fit(drafts[0], limit, started)]
    cheapest, tried = time_and_fit(drafts[-1], limit, started), []
    for draft in drafts[:-1]:
        fitted = fit_epochs(draft, cheapest.timing.scaled(draft.flops / drafts[-1].flops), limit, started)
        if fitted.is_fast_enough:
            fitted = time_and_fit(draft, limit, started)
        tried.append(fitted)
        if fitted.is_fast_enough:
            return tried
    return [*tried, fit_epochs(drafts[-1], cheapest.timing, limit, started)]


def same_model(one: Draft, other: Draft) -> bool:
    """Whether two drafts are the same because of the overrides."""
    return (one.one_epoch.model, one.side) == (other.one_epoch.model, other.side)


def skipped_reason(skipped: Sequence[BudgetedDraft]) -> list[str]:
    """Why larger models were skipped; nothing if none were."""
    if not skipped:
        return []
    names = ", ".join(f"{one.draft.one_epoch.model.backbone} at {one.draft.side} pixels" for one in skipped)
    first = skipped[0]
    epochs = f"{first.affordable_epochs} of {first.draft.default_epochs} epochs fit into {duration(first.limit)}"
    return [f"Too slow: {names}; of the first, {epochs}."]


def with_fallback(fitted: BudgetedDraft, started: float) -> BudgetedDraft:
    """The same model with the fallback method if too few epochs fit, else the draft unchanged.

    GCL, mixup and a second stage need many epochs. A method, or any field of a stage, that the user sets is kept.
    """
    draft = fitted.draft
    fixed = any(field == "method" or field.startswith("stage") for field in fields_of(draft.overrides))
    if fitted.is_fast_enough or fixed or draft.dataset.profile.ratio < BALANCED_RATIO:
        return fitted
    return time_and_fit(replace(draft, method=FALLBACK_METHOD), fitted.limit, started)  # its steps are faster


def fallback_reason(fitted: BudgetedDraft) -> Iterator[str]:
    """Why the fallback method was chosen; nothing if it was not."""
    if fitted.draft.method:
        epochs = round(MIN_EPOCH_SHARE * fitted.draft.default_epochs)
        yield f"Logit-adjusted cross-entropy instead of GCL, which needs at least {epochs} epochs."
