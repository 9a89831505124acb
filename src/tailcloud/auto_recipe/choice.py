"""A recipe for a data set, a device and a time budget, and why it is that one."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tailcloud.auto_recipe.candidates import better_with, candidates, few_images
from tailcloud.auto_recipe.draft import Draft, Settings
from tailcloud.auto_recipe.epoch_budget import Fitted, fit, fit_at
from tailcloud.auto_recipe.fallback_method import hurried, why_hurried
from tailcloud.auto_recipe.flip_test import compare_mirrored
from tailcloud.auto_recipe.rules import describe_data
from tailcloud.data import Dataset
from tailcloud.formatting import duration
from tailcloud.recipe import load_recipe

ON_A_CPU = 1800.0  # seconds that a CPU gets where nobody says how long


@dataclass(frozen=True)
class Choice:
    """Settings to lay over the data's own recipe, a sentence for each decision, and the seconds the run should take."""

    settings: dict[str, Any]
    reasons: list[str]
    seconds: float


def choose(
    dataset: Dataset,
    device: torch.device,
    budget: float | None = None,
    asked: Sequence[Settings] = (),
    started: float | None = None,
) -> Choice:
    """Choose backbone, image size, batch, epochs, augmentation, second stage and validation part.

    Args:
        dataset: the data as they were opened, nothing held out yet.
        device: where the run will compute; a few steps are timed there.
        budget: seconds that the run may take; without one, a CPU gets half an hour and a GPU what it needs.
        asked: settings that are not up for choice; they lie over what is chosen.
        started: when the budget began to run, by ``time.perf_counter``; by default now.
    """
    started = time.perf_counter() if started is None else started
    base = load_recipe(None, [{"data": dataset.spec}, *asked])
    limit = budget or (ON_A_CPU if device.type == "cpu" else None)
    mirrored = compare_mirrored(dataset.train)
    drafts: list[Draft] = []
    for candidate in candidates(dataset, device, base):
        draft = Draft(dataset, candidate, device, mirrored, asked)
        drafts += [draft] if not any(same_model(draft, other) for other in drafts) else []
    *passed, fitted = walk(drafts, limit, started)
    best = hurried(fitted, started)
    why = [*left_out(passed), *why_hurried(best), *best.draft.reasons(), *best.reasons(budget)]
    reasons = [describe_data(dataset), *why]
    if few_images(dataset) and not best.draft.trial.model.weights:
        reasons.append(better_with(base.root))
    return Choice(best.settings, reasons, best.seconds_of(best.epochs))


def walk(drafts: Sequence[Draft], limit: float | None, started: float) -> list[Fitted]:
    """Drafts from the most wanted one down to the first that fits with comfort, or to the last.

    The last one, which is the cheapest, is timed first: its pace says which others are worth timing.
    """
    if limit is None or len(drafts) == 1:
        return [fit(drafts[0], limit, started)]
    cheapest, passed = fit(drafts[-1], limit, started), []
    for draft in drafts[:-1]:
        fitted = fit_at(draft, cheapest.pace.scaled(draft.flops / drafts[-1].flops), limit, started)
        if fitted.comfortable:
            fitted = fit(draft, limit, started)
        passed.append(fitted)
        if fitted.comfortable:
            return passed
    return [*passed, fit_at(drafts[-1], cheapest.pace, limit, started)]


def same_model(one: Draft, other: Draft) -> bool:
    """Whether two drafts come to the same, because of what was asked for."""
    return (one.trial.model, one.side) == (other.trial.model, other.side)


def left_out(passed: Sequence[Fitted]) -> list[str]:
    """Why larger models were passed over."""
    if not passed:
        return []
    names = ", ".join(f"{one.draft.trial.model.backbone} at {one.draft.side} pixels" for one in passed)
    first = passed[0]
    time = f"would train {first.affordable} of {first.draft.wanted} epochs in {duration(first.limit)}"
    return [f"Too slow for the time: {names}; the first of them {time}."]
