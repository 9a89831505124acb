"""A draft recipe that starts from pretrained weights: fine-tuning, or a head on features of the frozen network."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from tailcloud.auto_recipe.candidates import Candidate
from tailcloud.auto_recipe.draft import Draft, fields_of
from tailcloud.auto_recipe.rules import (
    ChosenSettings,
    choose_engine,
    choose_fit,
    choose_flips,
    choose_kept_stage,
    choose_validation,
    images_held_out,
)
from tailcloud.calibration.held_out import MIN_HELD_OUT_IMAGES
from tailcloud.calibration.run_calibration import can_be_corrected
from tailcloud.classifier import meta_backbone
from tailcloud.data.splits import limited_positions
from tailcloud.recipe.merge import merge
from tailcloud.weights import CATALOGUE

DEFAULT_METHOD = "logit-adjust"  # re-balances in one stage, also with few epochs
STEPS, MOST_EPOCHS, FEWEST_EPOCHS = 3000, 30, 12  # of fine-tuning
BUDGETED = 3  # times as many if a time budget leaves room for them
ENOUGH_STEPS, MOST_ENOUGH_EPOCHS, FEWEST_ENOUGH_EPOCHS = 700, 8, 2  # with fewer, the network stays frozen
FEWEST_STEPS = 300  # the same of few images, where 8 epochs are only some steps
FEW_IMAGES = 256  # with fewer, four batches, the network stays frozen in any case
CPU_MARGIN = 1.25  # times the time that training needs; features may be computed for smaller images instead
FINE_TUNING_BATCH = 64
FINE_TUNING: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 1e-3,
    "lr_factors": {"backbone": 0.3},
    "weight_decay": 0.05,
    "decay_norms": False,
    "schedule": "cosine",
    "lr_interval": "step",
    "warmup": 1.0,
    "batch": FINE_TUNING_BATCH,
    "mixup": 0.0,
}
HEAD_ALONE: dict[str, Any] = {
    "train": "head",
    "views": 1,  # more made no difference
    "optimizer": "adamw",
    "lr": 1e-3,
    "weight_decay": 0.01,
    "schedule": "cosine",
    "lr_interval": "step",
    "warmup": 0,
    "mixup": 0.0,
}
HEAD_BATCHES = ((2_000, 64), (8_000, 128), (16_000, 256))  # (up to so many images, batch size); then LARGEST_…
LARGEST_HEAD_BATCH = 512
HEAD_STEPS, MIN_HEAD_EPOCHS, MAX_HEAD_EPOCHS = 1200, 20, 200
ENOUGH_HEAD_SHARE, MIN_HEAD_SHARE = 0.5, 0.2  # of these epochs
TRIAL_HEADS = 2  # the head trial trains at least three heads on two thirds of the images each
LAST_LAYERS = 3  # of the backbone, which are trained if there is no time for all
CROP_AREA, COLOR_JITTER = [0.3, 1.0], [0.3, 0.3, 0.3]

# The heads that are tried on features, in order of preference, with what differs from their method's settings.
HEAD_METHODS: dict[str, Mapping[str, Any]] = {
    "logit-adjust": {"model": {"head": "cosine"}, "stage1": {"loss": {"name": "logit-adjust", "scale": 30.0}}},
    "gcl": {},
    "balanced-softmax": {},
    "ncm": {"stage1": {"epochs": 0}},
}


@dataclass(frozen=True)
class PretrainedDraft(Draft):
    """A draft with pretrained weights. ``method`` is ``DEFAULT_METHOD`` unless the head trial finds a better one.

    ``budgeted``: the user has set a time budget, which more epochs than the default may fill. ``may_limit``: images may
    be left out to save time. ``max_count``: the most images of a class that ``dataset`` has; 0: all.
    """

    method: str | None = DEFAULT_METHOD
    budgeted: bool = False
    may_limit: bool = False
    max_count: int = 0

    @property
    def limitable(self) -> bool:
        """Whether a time limit may leave images of large classes out; features of the rest are computed once."""
        return self.may_limit and self.trains_head_alone

    def limited_to(self, most: int) -> "PretrainedDraft":
        """The draft with at most so many training images of each class."""
        train = self.dataset.train
        kept = train.take(limited_positions(train.labels, self.dataset.classes, most))
        return replace(self, dataset=replace(self.dataset, train=kept), max_count=most)

    @property
    def trains_head_alone(self) -> bool:
        """Whether the network stays frozen."""
        return self.candidate.part == "head"

    @property
    def has_enough_images(self) -> bool:
        """Whether there are enough images to train more than the head."""
        return len(self.dataset.train) >= FEW_IMAGES

    @property
    def tries_heads(self) -> bool:
        """Whether the best of several heads is taken: they cost seconds, and the user names neither one nor a stage."""
        fields = fields_of(self.overrides)
        return self.trains_head_alone and not any(
            field in {"method", "model.head"} or field.startswith("stage") for field in fields
        )

    @property
    def trial_epochs(self) -> int:
        """Epochs of the head trial on all images, if it stops after the first fold."""
        return TRIAL_HEADS * self.default_epochs if self.tries_heads else 0

    @property
    def title(self) -> str:
        """What is trained, and at which image size, in a few words."""
        parts = {"all": "training the network", "last": "training the last layers", "head": "a head on features"}
        return f"{parts[self.candidate.part]} at {self.side} pixels"

    @property
    def passes(self) -> float:
        """The time to train on an image over that to compute its features, roughly; measured on a CPU, where a folded
        network computes features.
        """
        on_cpu = self.device.type == "cpu"
        return {"all": 5.4 if on_cpu else 3.0, "last": 1.9 if on_cpu else 1.3, "head": 1.0}[self.candidate.part]

    @cached_property
    def chosen(self) -> ChosenSettings:
        """The settings that do not depend on the time limit."""
        chosen = ChosenSettings()
        self.choose_network(chosen)
        once = self.trains_head_alone and "stage1.views" not in fields_of(self.overrides)
        choose_flips(chosen, self.dataset, self.flips, as_they_are=once)
        if not self.trains_head_alone:
            varied = "Random crops of 30 to 100 % of an image, other colours, and one TrivialAugment operation each."
            chosen.set("augment.crop_area", CROP_AREA, varied)
            chosen.set("augment.trivial_augment", True)
            chosen.set("augment.color_jitter", COLOR_JITTER)
            chosen.set("augment.crop_padding", 0)
        choose_validation(chosen, self.dataset)
        choose_engine(chosen, self.device)
        self.choose_stages(chosen)
        self.choose_correction(chosen)
        return chosen

    def choose_correction(self, chosen: ChosenSettings) -> None:
        """A last stage that corrects the re-balancing, if the method re-balances and images are held out.

        Also which stage is kept.
        """
        recipe = self.recipe_so_far(chosen)
        choose_kept_stage(chosen, self.dataset, recipe)
        held_out, counts = images_held_out(self.dataset, recipe.selection.split), self.dataset.profile.counts.tolist()
        if not recipe.stage3 and held_out >= MIN_HELD_OUT_IMAGES and can_be_corrected(recipe, counts):
            reason = "At the end the re-balancing is corrected on the held-out images, if they show a bias."
            chosen.set("stage3.head_transform", "tuned-logit-adjust", reason)
            chosen.set("stage3.views", int(self.trains_head_alone))

    def choose_network(self, chosen: ChosenSettings) -> None:
        """Backbone, weights and image size, and which part of the network is trained."""
        backbone, side = self.candidate.backbone, self.candidate.side
        chosen.set("model.backbone", backbone)
        chosen.set("model.weights", self.candidate.weights, f"Starts from {describe_weights(self.candidate)}.")
        if self.candidate.resize:
            chosen.set("data.size", side, f"Images are read at {side} × {side} pixels.")
        choose_fit(chosen, self.dataset, self.candidate)
        if self.max_count:
            number = f"at most {self.max_count:,} images of each class are used, {len(self.dataset.train):,} in all"
            reason = f"To fit the time budget, {number}; small classes keep all of theirs."
            chosen.set("data.max_count", self.max_count, reason)

    def choose_stages(self, chosen: ChosenSettings) -> None:
        """What is trained, with which optimiser and batch size."""
        first = {**HEAD_ALONE, "batch": self.head_batch} if self.trains_head_alone else dict(FINE_TUNING)
        if self.candidate.part == "last":
            first["train"] = "+".join([*last_layers(self.candidate.backbone), "head"])
        for key, value in merge({"stage1": first}, self.head_settings).items():
            for field, setting in value.items():
                chosen.set(f"{key}.{field}", setting)
        second = self.base.stage2
        if second and not second.trains_only_head:
            chosen.set("stage2.train", first.get("train", second.train))
            chosen.set("stage2.batch", first["batch"])
        if second and (second.trains_only_head or self.trains_head_alone):
            chosen.set("stage2.epochs", second.epochs)  # on features they take seconds
            chosen.set("stage2.views", 1)
            chosen.set("stage2.mixup", 0.0)
            chosen.set("stage2.batch", self.head_batch)
        what = {
            "head": "The network stays as it is: its features are computed once, and a head is trained on them.",
            "last": f"The last {LAST_LAYERS} layers of the network and the head are trained.",
            "all": "The whole network is trained.",
        }
        chosen.reasons.append(("stage1.train", what[self.candidate.part]))

    @cached_property
    def head_settings(self) -> Mapping[str, Any]:
        """What a head on features takes instead of its method's settings, unless the user sets the head or its loss."""
        fixed = {"model.head", "stage1.loss"} & set(fields_of(self.overrides))
        return HEAD_METHODS.get(self.base.method, {}) if self.trains_head_alone and not fixed else {}

    def needs_less_mixup(self, epochs: int) -> bool:  # noqa: ARG002
        """Never: its batches are not mixed."""
        return False

    @property
    def head_batch(self) -> int:
        """The batch size of a head that is trained alone."""
        return head_batch(len(self.dataset.train))

    def epochs_of(self, steps: int) -> int:
        """The epochs that have so many steps in which more than the head is trained."""
        return -(-steps // max(1, self.images // FINE_TUNING_BATCH))

    @property
    def usual_epochs(self) -> int:
        """Epochs of a first stage that trains more than the head, without a time limit, if there are many images."""
        return min(MOST_EPOCHS, max(FEWEST_EPOCHS, self.epochs_of(STEPS)))

    @property
    def enough_epochs(self) -> float:
        """Fewer epochs than this are too few for the draft."""
        if self.trains_head_alone:
            return ENOUGH_HEAD_SHARE * self.default_epochs
        return max(self.min_epochs, self.epochs_of(FEWEST_STEPS)) if self.has_enough_images else self.min_epochs

    @property
    def default_epochs(self) -> int:
        """Epochs of a first stage without a time limit."""
        if self.trains_head_alone:
            return head_epochs(self.images, self.head_batch)
        return max(self.usual_epochs, ceil(self.enough_epochs))

    @property
    def most_epochs(self) -> int:
        """Epochs of a first stage with plenty of time; heads on features gain nothing from more than the default."""
        fills_budget = self.budgeted and not self.trains_head_alone
        return max(self.default_epochs, BUDGETED * self.usual_epochs) if fills_budget else self.default_epochs

    @property
    def min_epochs(self) -> int:
        """The fewest epochs that are trained, even if they exceed the time limit."""
        if self.trains_head_alone:
            return ceil(MIN_HEAD_SHARE * self.default_epochs)
        return min(MOST_ENOUGH_EPOCHS, max(FEWEST_ENOUGH_EPOCHS, self.epochs_of(ENOUGH_STEPS)))

    @property
    def margin(self) -> float:
        """On a CPU training must not take all of the time: the machine may turn slower."""
        return CPU_MARGIN if self.device.type == "cpu" and not self.trains_head_alone else 1.0

    def settings(self, epochs: int, every: int = 1) -> dict[str, Any]:
        """The settings of a run with that many epochs in its first stage, evaluated after every ``every`` epochs."""
        settings = super().settings(epochs, every)
        settings["stage1"] |= {
            key: value for key, value in self.head_settings.get("stage1", {}).items() if key == "epochs"
        }
        return settings


def head_batch(images: int) -> int:
    """The batch size of a head that is trained alone on so many images."""
    return next((size for most, size in HEAD_BATCHES if images <= most), LARGEST_HEAD_BATCH)


def head_epochs(images: int, batch: int) -> int:
    """The epochs of a head that is trained alone."""
    return min(MAX_HEAD_EPOCHS, max(MIN_HEAD_EPOCHS, -(-HEAD_STEPS // max(1, images // batch))))


def last_layers(backbone: str) -> list[str]:
    """The last layers of a backbone, as parts of the model."""
    layers = meta_backbone(backbone).layers()
    return [f"backbone.{part}" for layer in layers[-LAST_LAYERS:] for part in layer] or ["backbone"]


def describe_weights(candidate: Candidate) -> str:
    """The weights in words: network, what they were trained on, and their licence."""
    entry = CATALOGUE.get(candidate.backbone)
    if entry is None or candidate.weights not in {"pretrained", entry.tag}:
        return f"the weights {candidate.weights} of {candidate.backbone}"
    millions = f"{(entry.parameters or 0) / 1e6:.1f} million parameters"
    return f"{entry.architecture}, trained on {entry.trained_on} ({millions}, {entry.licence})"
