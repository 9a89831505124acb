"""A run in memory: its recipe, its data on the device, its model. And the pieces that one stage is made of."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.optim import SGD

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data import Dataset
from tailcloud.data.resident import ResidentImages, ResidentLoader
from tailcloud.data.transform import Normalise
from tailcloud.evaluation import Predictions, predict
from tailcloud.losses import LOSSES, Loss
from tailcloud.recipe import Recipe, Stage
from tailcloud.sampling import make_sampler
from tailcloud.stages.objective import Classify
from tailcloud.stages.scope import set_trainable
from tailcloud.training.optim import make_optimizer
from tailcloud.training.step import EagerStep


def architecture(recipe: Recipe, dataset: Dataset) -> Architecture:
    """The model that a recipe trains on a data set."""
    model = recipe.model
    return Architecture(model.backbone, model.head, model.width, dataset.shape[2], dataset.classes)


@dataclass(frozen=True)
class StageParts:
    """What one stage works with."""

    name: str
    stage: Stage
    loader: ResidentLoader
    parameters: dict[str, nn.Parameter]
    optimizer: SGD
    step: EagerStep
    scale: float


class Session:
    """Everything a run has on the device."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        self.recipe, self.dataset, self.device = recipe, dataset, device
        self.architecture = architecture(recipe, dataset)
        self.model = build_classifier(self.architecture, recipe.seed).to(device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.transform = Normalise(dataset.mean, dataset.std, device)
        self.train = ResidentImages(dataset.train, device)
        self.test = ResidentImages(dataset.test, device)
        self.val = ResidentImages(dataset.val, device) if dataset.val else None

    def loss(self, stage: Stage) -> Loss:
        """The loss of a stage, knowing the class counts."""
        counts = self.dataset.profile.counts.tolist()
        return LOSSES[stage.loss.name](counts, **stage.loss.options).float().to(self.device)

    def parts(self, name: str, stage: Stage) -> StageParts:
        """Sampler, loader, objective and optimiser of a stage; freezes what the stage does not train."""
        loss = self.loss(stage)
        sampler = make_sampler(
            stage.sampler.name, self.dataset.train.labels, self.dataset.classes, **stage.sampler.options
        )
        loader = ResidentLoader(
            self.train,
            sampler,
            self.transform,
            batch=stage.batch,
            crop_padding=self.recipe.augment.crop_padding,
            flip=self.recipe.augment.flip,
            mixup=stage.mixup,
            seed=self.recipe.seed,
            stage=name,
        )
        parameters = set_trainable(self.model, stage)
        optimizer = make_optimizer(stage, parameters)
        step = EagerStep(self.model, Classify(loss), optimizer)
        return StageParts(name, stage, loader, parameters, optimizer, step, loss.scale)

    def predict(self, images: ResidentImages, scale: float) -> Predictions:
        """What the model says about a part of the data, now."""
        return predict(self.model, images.in_order(self.transform), scale)

    @cached_property
    def best_on(self) -> str:
        """The part on which the best epoch is found: validation if there is one, else test, and labelled so."""
        return "val" if self.val else "test"
