"""Rules that follow from the data alone: augmentation, validation split, batch size, stages.

Every rule chooses settings of a recipe, and gives a reason for each setting that a user should know.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from tailcloud.auto_recipe.candidates import Candidate, is_user_data
from tailcloud.auto_recipe.flip_test import FlipTest
from tailcloud.calibration.held_out import MIN_HELD_OUT_IMAGES
from tailcloud.data import Dataset, hold_out
from tailcloud.formatting import counted
from tailcloud.head_transforms.base import SHIFTED_HEADS
from tailcloud.recipe import Recipe, head_kinds

SPLIT, MIN_IMAGES_TO_SPLIT = 0.1, 500
BALANCED_RATIO = 1.5  # an imbalance ratio below this needs no second stage
EPOCHS, EPOCHS_OF_MANY_IMAGES, MANY_IMAGES = 200, 100, 50_000
BATCH_SIZES = ((20_000, 64), (100_000, 128))  # (up to so many images, batch size); beyond, LARGEST_BATCH
LARGEST_BATCH = 256
MAX_SIDE = 16  # of an aspect ratio in words, such as 3:4
CROP_SHARE = 8  # images are shifted by up to their side over this


@dataclass
class ChosenSettings:
    """The settings that are chosen so far, and the reasons: (field, sentence)."""

    settings: dict[str, Any] = field(default_factory=dict)
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def set(self, key: str, value: Any, reason: str = "") -> None:
        """Choose a value for a field of the recipe."""
        table, _, name = key.partition(".")
        self.settings.setdefault(table, {})[name] = value
        if reason:
            self.reasons.append((key, reason))


def choose_model(chosen: ChosenSettings, dataset: Dataset, candidate: Candidate) -> None:
    """Backbone and image size of the candidate."""
    side, now = candidate.side, max(dataset.shape[:2])
    chosen.set("model.backbone", candidate.backbone, f"{candidate.backbone}, for images of {side} pixels.")
    if candidate.resize and (side != now or dataset.shape[0] == dataset.shape[1]):
        chosen.set("data.size", side, f"Images are resized to {side} pixels instead of {now}." if side != now else "")
    choose_fit(chosen, dataset, candidate)


def choose_fit(chosen: ChosenSettings, dataset: Dataset, candidate: Candidate) -> None:
    """The whole picture, if it is far from square: a subject may be at its edge; or its center, if that is better."""
    if candidate.fit and dataset.native_ratio:
        sides = Fraction(dataset.native_ratio).limit_denominator(MAX_SIDE)
        typical = f"{sides.numerator}:{sides.denominator}"
        how = f"The whole picture is read, about {typical}, with black borders; data.fit=crop reads its center larger"
        if candidate.fit == "crop":
            how = f"The center of pictures of about {typical} is read; data.fit=pad reads the whole of them smaller"
        evidence = f" ({candidate.fit_evidence})" if candidate.fit_evidence else ""
        chosen.set("data.fit", candidate.fit, f"{how}{evidence}.")


def choose_augmentation(chosen: ChosenSettings, dataset: Dataset, side: int, flips: FlipTest) -> None:
    """Small shifts always; horizontal flips if the flip test allows them."""
    chosen.set("augment.crop_padding", max(1, round(side / CROP_SHARE)))
    choose_flips(chosen, dataset, flips)


def choose_flips(chosen: ChosenSettings, dataset: Dataset, flips: FlipTest, *, as_they_are: bool = False) -> None:
    """Horizontal flips if the flip test allows them; ``as_they_are``: only features of images as they are count."""
    colour = dataset.shape[2] > 1
    if flips.informative:
        flip, hits = not flips.flips_hurt, f"{flips.hits:,} of {flips.images:,} as they are"
        why = f"nearest means recognise {hits}, and {'still' if flip else 'only'} {flips.flipped_hits:,} flipped"
    else:
        flip, usual = colour, "usual for colour images" if colour else "grey images may show text"
        why = f"{usual}, and nearest means recognise too few to test it"
    text = "Images are flipped left to right at random" if flip else "Images are not flipped"
    reason = "Images are not flipped: features are those of each as it is." if as_they_are else f"{text}: {why}."
    chosen.set("augment.flip", flip, reason)


def choose_validation(chosen: ChosenSettings, dataset: Dataset) -> None:
    """A tenth of each class, if there are enough images and no validation split."""
    if dataset.val:
        chosen.set("selection.split", 0.0, f"Nothing is held out: there are {len(dataset.val):,} validation images.")
    elif len(dataset.train) < MIN_IMAGES_TO_SPLIT:
        reason = f"all {len(dataset.train):,} images are needed for training; probabilities are not calibrated"
        chosen.set("selection.split", 0.0, f"Nothing is held out: {reason}.")
    elif not images_held_out(dataset, SPLIT):
        chosen.set("selection.split", 0.0, "Nothing is held out: every class is too small.")
    else:
        chosen.set("selection.split", SPLIT, f"{SPLIT:.0%} of each class is held out to calibrate probabilities.")


def choose_kept_stage(chosen: ChosenSettings, dataset: Dataset, recipe: Recipe) -> None:
    """Stages of a user's own data are compared on held-out images; ``recipe`` is what is chosen so far."""
    if not is_user_data(dataset) or images_held_out(dataset, recipe.selection.split) < MIN_HELD_OUT_IMAGES:
        return
    reason = "The second stage is not kept if it is worse on the held-out images." if recipe.stage2 else ""
    chosen.set("selection.stage", "best", reason)
    chosen.set("selection.objective", "balanced")


def images_held_out(dataset: Dataset, share: float) -> int:
    """How many images a run would hold out: the validation split, or that share of each class."""
    train = dataset.train
    labels_alone = replace(train, images=np.empty((len(train), 0), np.uint8), names=None)
    held_out = hold_out(replace(dataset, train=labels_alone), share).val
    return len(held_out) if held_out else 0


def choose_stages(chosen: ChosenSettings, dataset: Dataset, base: Recipe) -> None:
    """Batch size by the number of images, and whether a second stage re-balances the classifier."""
    images, profile = len(dataset.train), dataset.profile
    batch = next((size for limit, size in BATCH_SIZES if images <= limit), LARGEST_BATCH)
    for name in base.stages:
        chosen.set(f"{name}.batch", batch)
    chosen.reasons.append(("stage1.batch", f"Batch size {batch} for {images:,} images."))
    if base.stage2 is None:
        return
    if not base.stage2.epochs:
        chosen.set("stage2.epochs", 0)  # the method only transforms the head
    elif profile.ratio < BALANCED_RATIO:
        reason = f"with an imbalance ratio of {profile.ratio:.3g} no class is rare"
        chosen.set("stage2.epochs", 0, f"No second stage: {reason}.")
    else:
        reason = f"the largest class has {profile.ratio:.3g} times the images of the smallest"
        chosen.reasons.append(("stage2.epochs", f"A second stage re-balances the classifier: {reason}."))


def choose_correction(chosen: ChosenSettings, dataset: Dataset, recipe: Recipe) -> None:
    """A third stage that corrects the second, if images are held out; ``recipe`` is what is chosen so far."""
    second = recipe.stage2
    if recipe.stage3 or not second or head_kinds(recipe)["stage2"] not in SHIFTED_HEADS:
        return
    if not second.epochs and second.head_transform.name != "logit-adjust":  # nothing is re-balanced
        return
    if images_held_out(dataset, recipe.selection.split) >= MIN_HELD_OUT_IMAGES:
        reason = "A third stage corrects the re-balancing on the held-out images."
        chosen.set("stage3.head_transform", "tuned-logit-adjust", reason)


def default_epochs(dataset: Dataset) -> int:
    """The epochs of a first stage from scratch without a time limit."""
    return EPOCHS if len(dataset.train) <= MANY_IMAGES else EPOCHS_OF_MANY_IMAGES


def describe_data(dataset: Dataset) -> str:
    """The data set in a sentence, with the size of its images before they are resized."""
    profile, (height, width, channels) = dataset.profile, dataset.shape
    size = f"{height}×{width}" if dataset.native_side is None else f"about {dataset.native_side:,}"
    colour = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
    return (
        f"{counted(len(dataset.train), 'training image')} in {counted(profile.classes, 'class', 'classes')}, "
        f"{profile.counts.max():,} to {profile.counts.min():,} each, {size} pixels, {colour}."
    )


def choose_engine(chosen: ChosenSettings, device: torch.device) -> None:
    """On a CPU the eager executor, whose time is predictable."""
    if device.type == "cpu":
        chosen.set("engine.executor", "eager")
