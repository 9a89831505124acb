"""What follows from the data alone: how images are varied, what is held out, how long to train, what to start from.

Every rule gives settings of a recipe, and a reason for each with the field that it is about.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tailcloud.auto_recipe.candidates import Candidate, is_own
from tailcloud.auto_recipe.flip_test import Mirrored
from tailcloud.calibration.temperature import FEWEST
from tailcloud.data import Dataset, hold_out
from tailcloud.formatting import counted
from tailcloud.head_transforms.head_kinds import SHIFTED
from tailcloud.recipe import Recipe, head_kinds

SPLIT, WORTH_HOLDING_OUT = 0.1, 500  # training images
BALANCED = 1.5  # an imbalance ratio below this needs no second stage
EPOCHS, EPOCHS_OF_MANY, MANY = 200, 100, 50_000
BATCHES = ((20_000, 64), (100_000, 128))  # up to so many images, batches of so many; beyond, LARGEST_BATCH
LARGEST_BATCH = 256
PADDING = 8  # an image is moved by up to its side over this
TUNED_LR, TUNED_EPOCHS = 0.01, 30  # where weights were trained before


@dataclass
class Rules:
    """Settings of a recipe as they come together, and why: a sentence for each field."""

    settings: dict[str, Any] = field(default_factory=dict)
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def set(self, key: str, value: Any, reason: str = "") -> None:
        """Choose a value for a field of the recipe."""
        table, *names = key.split(".")
        inner = self.settings.setdefault(table, {})
        inner[names[0]] = value
        if reason:
            self.reasons.append((key, reason))


def choose_model(rules: Rules, dataset: Dataset, candidate: Candidate) -> None:
    """The candidate's backbone, image size and weights."""
    side, now = candidate.side, max(dataset.shape[:2])
    rules.set("model.backbone", candidate.backbone, f"{candidate.backbone}, for images of {side} pixels.")
    if is_own(dataset) and (side != now or dataset.shape[0] == dataset.shape[1]):
        rules.set("data.size", side, f"Images of {side} pixels instead of {now}." if side != now else "")
    if candidate.weights:
        reason = f"{len(dataset.train):,} images are few, and features that were learnt on more serve them"
        rules.set("model.weights", candidate.weights, f"It starts from {candidate.weights}: {reason}.")
        rules.set("stage1.lr", TUNED_LR)


def choose_augmentation(rules: Rules, dataset: Dataset, side: int, found: Mirrored) -> None:
    """Small shifts always; mirroring where the images themselves do not speak against it."""
    rules.set("augment.crop_padding", max(1, round(side / PADDING)))
    colour = dataset.shape[2] > 1
    figures = f"{found.plain:,} of {found.images:,} images as they are, and {found.mirrored:,} mirrored"
    if found.lost:
        rules.set("augment.flip", False, f"No mirroring: class means recognise {figures}.")
    elif found.telling or colour:
        told = f"class means recognise {figures}" if found.telling else "photographs seldom have a left and a right"
        rules.set("augment.flip", True, f"Mirroring: {told}.")
    else:
        reason = "the images are grey, and class means recognise too few of them to tell; writing would suffer"
        rules.set("augment.flip", False, f"No mirroring: {reason}.")


def choose_validation(rules: Rules, dataset: Dataset) -> None:
    """A tenth of each class, where there is enough and nobody set a part aside."""
    if dataset.val:
        rules.set("selection.split", 0.0, f"Nothing is held out: the data have {len(dataset.val):,} validation images.")
    elif len(dataset.train) < WORTH_HOLDING_OUT:
        reason = f"of {len(dataset.train):,} images all are needed to train, so probabilities are not calibrated"
        rules.set("selection.split", 0.0, f"Nothing is held out: {reason}.")
    elif not images_held_out(dataset, SPLIT):
        rules.set("selection.split", 0.0, "Nothing is held out: no class has an image to spare.")
    else:
        rules.set("selection.split", SPLIT, f"{SPLIT:.0%} of each class is held out, which calibrates probabilities.")


def images_held_out(dataset: Dataset, share: float) -> int:
    """How many images a run would not train on: those of the validation part, or what classes give of such a share."""
    train = dataset.train
    labels_alone = replace(train, images=np.empty((len(train), 0), np.uint8), names=None)
    held_out = hold_out(replace(dataset, train=labels_alone), share).val
    return len(held_out) if held_out else 0


def choose_stages(rules: Rules, dataset: Dataset, base: Recipe) -> None:
    """Batches by the number of images, and whether the classifier is re-balanced."""
    images, profile = len(dataset.train), dataset.profile
    batch = next((size for limit, size in BATCHES if images <= limit), LARGEST_BATCH)
    for name in base.stages:
        rules.set(f"{name}.batch", batch)
    rules.reasons.append(("stage1.batch", f"Batches of {batch}, for {images:,} images."))
    if base.stage2 is None:
        return
    if not base.stage2.epochs:
        rules.set("stage2.epochs", 0)  # the method changes the head, and trains nothing more
    elif profile.ratio < BALANCED:
        reason = f"with an imbalance of {profile.ratio:.3g} nothing is rare"
        rules.set("stage2.epochs", 0, f"The second stage trains nothing: {reason}.")
    else:
        reason = f"the largest class has {profile.ratio:.3g} times the images of the smallest"
        rules.reasons.append(("stage2.epochs", f"A second stage re-balances the classifier: {reason}."))


def choose_correction(rules: Rules, dataset: Dataset, recipe: Recipe) -> None:
    """A third stage that corrects a second one, where images are held out; ``recipe`` is what is chosen so far."""
    second = recipe.stage2
    if recipe.stage3 or not second or head_kinds(recipe)["stage2"] not in SHIFTED:
        return
    if not second.epochs and second.head_transform.name != "logit-adjust":  # nothing is re-balanced
        return
    if images_held_out(dataset, recipe.selection.split) >= FEWEST:
        reason = "What re-balancing gives to rare classes is corrected on the held-out images."
        rules.set("stage3.head_transform", "tuned-logit-adjust", reason)


def wanted_epochs(dataset: Dataset, candidate: Candidate) -> int:
    """The epochs of a first stage that nothing hurries."""
    if candidate.weights:
        return TUNED_EPOCHS
    return EPOCHS if len(dataset.train) <= MANY else EPOCHS_OF_MANY


def describe_data(dataset: Dataset) -> str:
    """The data in a sentence."""
    profile, (height, width, channels) = dataset.profile, dataset.shape
    colour = {1: "grey", 3: "in colour"}.get(channels, f"of {channels} channels")
    return (
        f"{counted(len(dataset.train), 'training image')} in {counted(profile.classes, 'class', 'classes')}, "
        f"{profile.counts.max():,} to {profile.counts.min():,} each, {height}×{width} and {colour}."
    )


def choose_engine(rules: Rules, device: torch.device) -> None:
    """On a CPU plain steps, whose time can be told in advance."""
    if device.type == "cpu":
        rules.set("engine.executor", "eager")
