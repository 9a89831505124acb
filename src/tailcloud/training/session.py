"""A run in memory: its recipe, its images on their plane, its model, and how it computes."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from tailcloud.classifier import Cost
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.placement import AnyImages
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.evaluation import DevicePredictions, Predictions, predict_on_device, to_predictions
from tailcloud.heads import Head
from tailcloud.losses import Loss
from tailcloud.recipe import Recipe, Stage
from tailcloud.training import signals
from tailcloud.training.distributed.world import ALONE, World
from tailcloud.training.engine import RunEngine
from tailcloud.training.executors.graph_capture import GraphedJudge
from tailcloud.training.images import RunImages
from tailcloud.training.model import architecture, cost_on, first_model
from tailcloud.training.stages.cost import flops_a_step
from tailcloud.training.stages.factory import make_loss


class Session:
    """Everything a run has on the device."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device, world: World = ALONE) -> None:
        self.recipe, self.dataset, self.device, self.world = recipe, dataset, device, world
        self.architecture = architecture(recipe, dataset)
        self.model, self.pretrained = first_model(recipe, dataset)
        if self.pretrained:  # images are normalised as these weights expect it
            self.dataset = replace(dataset, mean=self.pretrained.mean, std=self.pretrained.std)
        self.model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.transform = Normalise(self.dataset.mean, self.dataset.std, device)
        self.images = RunImages(recipe, self.dataset, device)
        self.engine = RunEngine(recipe, self.dataset, self.model, device, world)
        self.overflows: list[str] = []  # what is to be known of outputs that are no numbers
        self.judges: dict[tuple[int, float], GraphedJudge] = {}

    @property
    def remarks(self) -> list[str]:
        """What the person at the keyboard should know before the run."""
        return [*self.images.remarks, *self.engine.remarks]

    def loss(self, stage: Stage) -> Loss:
        """The loss of a stage, knowing the class counts."""
        return make_loss(stage, self.dataset.profile.counts.tolist()).to(self.device)

    def use_head(self, head: Head) -> None:
        """Go on with another head; what was captured with the old one is forgotten."""
        self.model.head = head
        self.judges.clear()

    def unfuse(self) -> None:
        """Go on with PyTorch's own kernels."""
        self.engine.fused = None
        self.judges.clear()

    def predict(self, images: AnyImages, scale: float) -> Predictions:
        """What the model says about a part of the data, now.

        Raises:
            BrokenOff: in all processes, if one of them was asked to end meanwhile.
        """
        self.model.eval()
        own = None
        with suppress(signals.BrokenOff):
            own = to_predictions(self.judged(images, scale), self.dataset.classes)
        (broken,) = self.world.any(own is None)
        if broken or own is None:
            raise signals.BrokenOff("stopped by SIGTERM")
        return Predictions.joined(self.world.gather(own))

    def judged(self, images: AnyImages, scale: float) -> DevicePredictions:
        """The same, still on the device: from a graph where steps are graphs too; by several processes in turn."""
        network = self.engine.network
        if self.engine.executor != "graphed" or not isinstance(images, ResidentImages):
            batches = images.in_order(self.transform, self.world.share())
            return predict_on_device(network, signals.while_wanted(batches), scale)
        key = id(images), scale
        if key not in self.judges:
            self.judges[key] = GraphedJudge(network, images, self.transform, scale)
        return self.judges[key]()

    @property
    def work(self) -> int:
        """FLOPs of one training step of everything."""
        return flops_a_step(self.recipe, self.cost.flops)

    @property
    def cost(self) -> Cost:
        """What the model costs, as it is now."""
        return cost_on(self.model, self.dataset)

    @property
    def environment(self) -> dict[str, Any]:
        """What a bit-for-bit repetition depends on."""
        return self.engine.environment | ({"weights": self.pretrained.sha256} if self.pretrained else {})

    @property
    def best_on(self) -> str:
        """The part on which the best epoch is found: validation if there is one, else test, and labelled so."""
        return "val" if self.images.val else "test"
