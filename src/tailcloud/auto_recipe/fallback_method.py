"""What is trained where there is no time for the method that is best with enough of it."""

from collections.abc import Iterator
from dataclasses import replace

from tailcloud.auto_recipe.draft import fields_of
from tailcloud.auto_recipe.epoch_budget import COMFORTABLE, Fitted, fit
from tailcloud.auto_recipe.rules import BALANCED

METHOD = "logit-adjust-posthoc"


def hurried(fitted: Fitted, started: float) -> Fitted:
    """The same model, trained with cross-entropy whose logits are adjusted, if few of the wanted epochs fit.

    Clouds, mixed images and a second stage pay in the long run. Who asked for a method, or for anything about a stage,
    gets that.
    """
    draft = fitted.draft
    asked = any(field == "method" or field.startswith("stage") for field in fields_of(draft.asked))
    if fitted.comfortable or asked or draft.dataset.profile.ratio < BALANCED:
        return fitted
    return fit(replace(draft, method=METHOD), fitted.limit, started)  # its steps are quicker, and timed anew


def why_hurried(fitted: Fitted) -> Iterator[str]:
    """Why the method is another one than usual."""
    if fitted.draft.method:
        few = round(COMFORTABLE * fitted.draft.wanted)
        reason = f"of which fewer than {few} epochs would fit, too few for clouds and a second stage"
        yield f"Cross-entropy, its logits adjusted, in the place of GCL, {reason}."
