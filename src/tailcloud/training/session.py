"""A run in memory: its recipe, images and model, and how it computes."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Unpack

import torch
from torch import Tensor

from tailcloud.classifier import Classifier, Cost, inference_head
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.images import Images
from tailcloud.evaluation import DevicePredictions, Predictions, predict_on_device, to_predictions
from tailcloud.heads import Head
from tailcloud.kernels import FusedNetwork
from tailcloud.losses import Loss
from tailcloud.objectives import Network
from tailcloud.recipe import Recipe, Stage
from tailcloud.sampling import Sampler
from tailcloud.training import signals
from tailcloud.training.devices import cores, threads_for
from tailcloud.training.distributed.world import SINGLE_PROCESS, World
from tailcloud.training.engine import RunEngine
from tailcloud.training.evaluation_schedule import evaluation_share
from tailcloud.training.executors.cuda_graph import GraphedEvaluation
from tailcloud.training.features.embedder import Embedder
from tailcloud.training.features.feature_cache import FeatureCache, cache_of
from tailcloud.training.features.head_network import HeadNetwork
from tailcloud.training.features.run_features import RunFeatures
from tailcloud.training.features.views import numbered_views
from tailcloud.training.frozen_layers import FrozenLayersNetwork
from tailcloud.training.model import architecture, cost_on, first_model, normalised_for
from tailcloud.training.run_images import RunImages
from tailcloud.training.stages.cost import flops_per_step
from tailcloud.training.stages.factory import make_loss
from tailcloud.training.stages.trainable import frozen_layers
from tailcloud.training.teachers import Teachers, load_teachers
from tailcloud.weights.licence import is_permissive, licence_text


class Session:
    """Everything that a run has on the device.

    ``inputs`` are the splits that the current stage trains and evaluates on: its images, or their features if the stage
    has ``views``. ``note`` receives sentences on what takes long; set it to hear them.
    """

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device, world: World = SINGLE_PROCESS) -> None:
        self.recipe, self.dataset, self.device, self.world = recipe, dataset, device, world
        self.kept_recipe = recipe  # without the stages after the one whose model is kept
        self.architecture = architecture(recipe, dataset)
        self.model, self.pretrained = first_model(recipe, dataset)
        self.dataset = normalised_for(self.pretrained, dataset)
        self.model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.transform = Normalise(self.dataset.mean, self.dataset.std, device)
        self.images = RunImages(recipe, self.dataset, device)
        self.engine = RunEngine(recipe, self.dataset, self.images.train, self.model, world)
        self.findings: list[str] = []  # remarks on what was measured
        self.evaluations: dict[tuple[int, float], GraphedEvaluation] = {}
        self.predictions: dict[tuple[int, float], Predictions] = {}  # of the present weights
        self.cores = cores()
        self.features: RunFeatures | None = None  # of the current stage, if it has views
        self.head_network = HeadNetwork(self.model.head)
        self.frozen_layers: FrozenLayersNetwork | None = None  # of the current stage, if there are some
        self.trained_on_images = False  # whether the backbone may have changed in this process
        self.note: Callable[[str], None] = lambda _: None

    @property
    def remarks(self) -> list[str]:
        """What a user should know before the run."""
        return [*self.images.remarks, *self.engine.remarks, *self.licence_remarks]

    @property
    def licence_remarks(self) -> list[str]:
        """A remark if the licence of published weights is not Apache, MIT or BSD."""
        weights = self.pretrained
        if weights is None or weights.source == "file" or is_permissive(weights.licence):
            return []
        return [f"The weights {weights.name} have {licence_text(weights.licence)}, which may apply to this model too."]

    @cached_property
    def teachers(self) -> Teachers | None:
        """The teachers of the recipe on the device; loaded on first use, since only the first stage needs them."""
        if self.recipe.distill is None:
            return None
        teachers = load_teachers(self.recipe.distill, self.dataset).to(self.device)
        return teachers.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]

    def loss(self, stage: Stage) -> Loss:
        """The loss of a stage, for these class counts."""
        return make_loss(stage, self.dataset.profile.counts.tolist()).to(self.device)

    def enter_stage(self, name: str) -> list[str]:
        """Take the images, or with ``views`` their features, as the inputs from now on. Returns remarks on that."""
        stage, augment = self.recipe.stages[name], self.recipe.augment
        self.drop_evaluations()
        self.frozen_layers = None
        if stage.views:
            torch.set_num_threads(threads_for(self.recipe.engine, 0, self.cores))  # steps on features are small
        elif self.features:
            torch.set_num_threads(threads_for(self.recipe.engine, self.step_flops, self.cores))
        self.features = None
        if not stage.views:
            return []
        views = numbered_views(augment, stage.views if stage.epochs else 1)
        threads = self.recipe.engine.threads or self.cores
        embedder = Embedder(self.model, self.architecture.backbone, self.transform, self.dataset.shape, threads=threads)
        self.features = RunFeatures(self.images, embedder, views, self.feature_cache(), self.tell)
        if not stage.epochs or len(views) == stage.views:
            return []
        return [f"views = {stage.views}, but [augment] makes only {len(views)} different; these are used."]

    def feature_cache(self) -> FeatureCache | None:
        """Where features are kept on disk; None for a backbone that was trained here, which nobody needs again."""
        return None if self.trained_on_images else cache_of(self.recipe.data.feature_cache, self.tell)

    def tell(self, sentence: str) -> None:
        """Pass a sentence on to ``note``."""
        self.note(sentence)

    @property
    def inputs(self) -> RunImages | RunFeatures:
        """The splits of the current stage."""
        return self.features or self.images

    @property
    def network(self) -> Network:
        """What trains and evaluates on the inputs of the current stage."""
        return self.head_network if self.features else self.frozen_layers or self.engine.network

    @property
    def plain_network(self) -> Classifier | HeadNetwork:
        """The same in PyTorch's own kernels."""
        return self.head_network if self.features else self.model

    @property
    def fused(self) -> FusedNetwork | None:
        """The fused kernels of the current stage."""
        return None if self.features else self.engine.fused

    @property
    def kernels(self) -> str:
        """Which kernels compute the current stage."""
        return "plain" if self.features else self.engine.kernels

    @property
    def executor(self) -> str:
        """How the steps of the current stage run."""
        return self.engine.feature_executor if self.features else self.engine.executor

    def loader(self, sampler: Sampler, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of the current stage."""
        source = self.features.train if self.features else self.engine
        return source.loader(sampler, self.transform, **options)

    def use_head(self, head: Head) -> None:
        """Replace the model's head; graphs that were captured with the old one are dropped."""
        self.model.head, self.head_network = head, HeadNetwork(head)
        self.drop_evaluations()

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Give the model other weights."""
        self.model.load_state_dict(weights)
        self.predictions.clear()

    def freeze_layers(self, stage: Stage) -> None:
        """Compute layers that the stage leaves as they are in their fastest form: in eager steps of a CPU on images.

        Not with drop path, which takes the classifier itself, nor with SAM, which writes to all buffers, nor in
        micro-batches, whose gradients belong to a module.
        """
        plain = self.device.type == "cpu" and self.executor == "eager" and not self.engine.uses_micro_batches
        usual = plain and not (stage.views or stage.sam or self.recipe.model.drop_path)
        layers = frozen_layers(self.model, stage) if usual else 0
        self.frozen_layers = FrozenLayersNetwork(self.model, layers) if layers else None

    def drop_evaluations(self) -> None:
        """Something else predicts from now on: forget graphs and predictions of the network before."""
        self.evaluations.clear()
        self.predictions.clear()

    def keep_until(self, name: str) -> None:
        """The model is that of a stage before the last, and is described as such."""
        self.kept_recipe = self.recipe.until(name)
        self.architecture = architecture(self.kept_recipe, self.dataset)

    def drop_training_parts(self) -> None:
        """Leave out of the finished model what only training needs; its outputs stay the same."""
        kind = self.architecture.at_inference.head
        if kind != self.architecture.head:
            self.use_head(inference_head(self.model, kind))
            self.architecture = self.architecture.at_inference

    def use_plain_kernels(self) -> None:
        """Use PyTorch's kernels instead of the fused ones from now on."""
        self.engine.use_plain_kernels()
        self.drop_evaluations()

    def predict(self, images: Images, scale: float) -> Predictions:
        """The model's predictions for a split, on all ranks; those of weights that have not changed are known.

        Raises:
            EvaluationStopped: on all ranks, if any of them received SIGTERM meanwhile.
        """
        key = id(images), scale
        if key not in self.predictions:
            self.predictions[key] = self._predict(images, scale)
        return self.predictions[key]

    def _predict(self, images: Images, scale: float) -> Predictions:
        self.model.eval()
        own = None
        with suppress(signals.EvaluationStopped):
            own = to_predictions(self.predict_share(images, scale), self.dataset.classes)
        (stopped,) = self.world.any(own is None)
        if stopped or own is None:
            raise signals.EvaluationStopped("stopped by SIGTERM")
        return Predictions.joined(self.world.gather(own))

    def predict_share(self, images: Images, scale: float) -> DevicePredictions:
        """The predictions for this rank's share of a split, on the device; by a CUDA graph if steps are graphs."""
        network = self.head_network if images.kind == "features" else self.frozen_layers or self.engine.network
        if self.executor != "graphed" or not images.capturable:
            batches = images.in_order(self.transform, self.world.share())
            return predict_on_device(network, signals.until_stopped(batches), scale)
        key = id(images), scale
        if key not in self.evaluations:
            self.evaluations[key] = GraphedEvaluation(network, images, self.transform, scale)
        return self.evaluations[key]()

    @property
    def step_flops(self) -> int:
        """FLOPs of the largest training step."""
        return flops_per_step(self.recipe, self.cost.flops)

    @property
    def cost(self) -> Cost:
        """Parameters and FLOPs of the model as it is now."""
        return cost_on(self.model, self.dataset)

    @property
    def environment(self) -> dict[str, Any]:
        """What bit-identical results depend on."""
        return self.engine.environment | ({"weights": self.pretrained.sha256} if self.pretrained else {})

    @property
    def evaluation_share(self) -> float:
        """The time of an evaluation over that of training an epoch, about."""
        held_out = len(self.dataset.val) if self.dataset.val else 0
        return evaluation_share(len(self.dataset.test) + held_out, len(self.dataset.train))

    @property
    def best_on(self) -> str:
        """The split on which the best epoch is chosen: validation if there is one, else test; the result says which."""
        return "val" if self.images.val else "test"
