"""The fallback method: what is trained if there is too little time for the default method."""

from collections.abc import Iterator
from dataclasses import replace

from tailcloud.auto_recipe.draft import fields_of
from tailcloud.auto_recipe.epoch_budget import MIN_EPOCH_SHARE, BudgetedDraft, time_and_fit
from tailcloud.auto_recipe.rules import BALANCED_RATIO

FALLBACK_METHOD = "logit-adjust-posthoc"


def with_fallback(fitted: BudgetedDraft, started: float) -> BudgetedDraft:
    """The same model with the fallback method if too few epochs fit, else the draft unchanged.

    GCL, mixup and a second stage need many epochs. A method or a setting of a stage that the user asked for is kept.
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
