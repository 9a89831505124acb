"""Labels that several pages and the model card share."""

from collections.abc import Mapping
from typing import Any

from tailcloud.formatting import number
from tailcloud.profile import FEW_BELOW, MANY_ABOVE
from tailcloud.runs.result import CalibrationResult, Result
from tailcloud.runs.weights_record import WeightsRecord

GROUP_BOUNDS = {
    "many": f"more than {MANY_ABOVE} training images",
    "medium": f"{FEW_BELOW} to {MANY_ABOVE} training images",
    "few": f"fewer than {FEW_BELOW} training images",
}
CLASS_FREQUENCIES = {
    "forward": "as in training",
    "uniform": "all classes equally often",
    "backward": "reversed: the rarest class is the most frequent",
}
ASSUMED_FREQUENCIES = {"train": "those of the training images", "uniform": "all classes equally often"}
WEIGHTED_TO = {"train": "classes as often as in training", "uniform": "all classes equally often"}
MUCH_CHANCE = 0.5  # of an ECE
SPLITS = {"test": "the test set", "val": "the validation set", "train": "the training set"}


def ece_basis(calibrated: CalibrationResult | None, prior: str | None = None) -> str:
    """What an ECE was measured on: "calibrated; all classes equally often".

    That is whether a temperature was fitted, and to which class frequencies the test images are weighted, if they are;
    ``prior`` is the file in which a user gave them.
    """
    if calibrated is None:
        return "not calibrated"
    fitted, mix = "calibrated" if calibrated.fitted_on else "not calibrated", weighted_to(calibrated, prior)
    return f"{fitted}; {mix}" if mix else fitted


def ece_by_chance(calibrated: CalibrationResult | None) -> str:
    """The ECE by chance, if that is much of the ECE, as a clause; else empty."""
    used = calibrated.in_use if calibrated else None
    if not used or not used.by_chance or not used.ece or used.by_chance < MUCH_CHANCE * used.ece:
        return ""
    return f"on so few images, perfect probabilities have about {number(used.by_chance)}"


def weighted_to(calibrated: CalibrationResult, prior: str | None = None) -> str:
    """The class frequencies to which test images are weighted; empty if they are taken as they are."""
    if calibrated.weighted is None:
        return ""
    other = f"classes as often as in {prior}" if prior else "classes as often as the model assumes"
    return WEIGHTED_TO.get(calibrated.weighted.prior, other)


def pretraining(weights: WeightsRecord | None) -> str:
    """The weights that training started from, in words."""
    if weights is None:
        return "none: trained from scratch"
    learned = f"trained on {weights.trained_on}" if weights.trained_on else "trained on unknown data"
    terms = f"licence {weights.licence}" if weights.licence else "licence unknown"
    return f"{weights.name}, {learned}, {terms}, from {weights.source}"


def trained_part(recipe: Mapping[str, Any] | None, stage: str) -> str:
    """What a stage of a recipe trains, in words; empty if nothing is known."""
    settings = (recipe or {}).get(stage)
    if not isinstance(settings, Mapping):
        return ""
    match settings.get("train", ""):
        case "all":
            return "the whole network"
        case "head":
            return "the head, on features of the frozen network" if settings.get("views") else "the head"
        case parts:
            return ", ".join(str(parts).split("+"))


def trained_parts(result: Result) -> str:
    """What the stages of a run trained: "stage1: the whole network; stage2: the head"; empty if nothing is known."""
    parts = {stage.name: trained_part(result.recipe, stage.name) for stage in result.stages if stage.epochs}
    return "; ".join(f"{name}: {part}" if len(parts) > 1 else part for name, part in parts.items() if part)


def split_name(split: str | None) -> str:
    """A split in words: "the validation set" for "val"."""
    return SPLITS.get(split or "", split or "an unknown split")
