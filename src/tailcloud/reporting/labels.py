"""Labels that several pages and the model card share."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tailcloud.formatting import NOT_MEASURED, counted, number
from tailcloud.profile import FEW_BELOW, MANY_ABOVE
from tailcloud.runs.result import CalibrationResult, Result, StageResult, StageTop1
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
FITS = {
    "crop": "a centre crop with the aspect ratio of the model's images, scaled",
    "pad": "the whole image is scaled to fit, and the rest is black",
    "squash": "height and width are scaled separately",
}
GENERIC_NAMES = {"train", "data", "images", "photos", "labels", "list", "index", "meta", "metadata"}
TOP_K_CLASSES = 6  # up to so many classes, top-5 says nothing
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
    return f"with so few images even perfect probabilities would show about {number(used.by_chance)}"


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


def stage_title(stage: StageTop1) -> str:
    """The name of a stage; one without epochs only changes the head, and says so."""
    return stage.name if stage.epochs else f"{stage.name} (no training)"


def effective_stages(result: Result) -> list[StageResult]:
    """The stages up to the kept one, less those without epochs that also left every accuracy as it was."""
    kept: list[StageResult] = []
    for stage in result.stages_of_model:
        same = kept and (stage.top1, stage.per_class) == (kept[-1].top1, kept[-1].per_class)
        if stage.epochs or not same:
            kept.append(stage)
    return kept


def seed_text(result: Result) -> str:
    """The seed of a run, or those of the runs that it averages."""
    seeds = [member.seed for member in result.model.members] or [result.protocol.seed]
    return ", ".join(NOT_MEASURED if seed is None else str(seed) for seed in seeds)


def epochs_text(result: Result) -> str:
    """The epochs of the stages that were trained: "60 + 10"; "n/a" if nothing is known."""
    return " + ".join(str(stage.epochs) for stage in result.stages if stage.epochs) or NOT_MEASURED


def reading_note(result: Result) -> str:
    """How an image file becomes what the model sees, as far as it is recorded."""
    data = result.dataset
    fit = FITS.get(data.fit or "", "")
    kept = f", {data.keep:.1%} of each side" if data.keep and data.keep < 1 else ""
    before = (
        f"The shorter sides of the image files have a median of {data.native_side:,} pixels. "
        if data.native_side
        else ""
    )
    return f"{before}How images of other sizes are read: {fit}{kept}." if fit else before.strip()


def data_name(spec: str) -> str:
    """What the data are called: the name of a folder or list without its path and ending, or a specification."""
    if not re.search(r"[/\\]|\.\w+$", spec):
        return spec
    *parents, last = [part for part in re.split(r"[/\\]", spec) if part not in {"", ".", ".."}] or [spec]
    name = re.sub(r"\.\w+$", "", last) or last
    return parents[-1] if parents and name.lower() in GENERIC_NAMES else name


def purpose(result: Result) -> str:
    """What a model is for: "clothing, 17 classes"."""
    return f"{data_name(result.dataset.spec)}, {counted(len(result.names), 'class', 'classes')}"


def best_of(results: Sequence[Result]) -> str:
    """Among which epochs the best was chosen: "best of 57 evaluated epochs"; empty if all were evaluated."""
    if all(result.best_of_all for result in results):
        return ""
    numbers = sorted({result.best_of for result in results if result.best_of is not None})
    fewest = f"{numbers[0]} to " if len(numbers) > 1 else ""
    return f"best of {fewest}{counted(numbers[-1], 'evaluated epoch')}"


def chosen_among(stage: StageResult) -> str:
    """Among which epochs of a stage one was chosen, as the end of a clause; empty if all were evaluated."""
    evaluated = stage.best.evaluated_epochs if stage.best else None
    if evaluated is None or evaluated >= stage.epochs:
        return ""
    return f" among {counted(evaluated, 'evaluated epoch')}"


def evaluated_epochs(result: Result) -> str:
    """How many epochs of each trained stage were evaluated: "57 of 200 + 9 of 30"; "all" if all were."""
    stages, every = [stage for stage in result.stages if stage.epochs], result.protocol.every
    counts = [stage.best.evaluated_epochs if stage.best else None for stage in stages]
    if not counts or None in counts:  # written by an older version
        return "all" if every == 1 else NOT_MEASURED if every == "auto" else f"every {every} epochs, and the last"
    if counts == [stage.epochs for stage in stages]:
        return "all"
    return " + ".join(f"{count} of {stage.epochs}" for count, stage in zip(counts, stages, strict=True))


def split_name(split: str | None) -> str:
    """A split in words: "the validation set" for "val"."""
    return SPLITS.get(split or "", split or "an unknown split")
