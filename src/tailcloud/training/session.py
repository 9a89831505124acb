"""A run in memory: its recipe, its data on the device, its model. And the pieces that one stage is made of."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from tailcloud.backbones.pretrained import Pretrained, find_weights, load_pretrained
from tailcloud.classifier import Architecture, Cost, build_classifier, cost_of, fresh_head
from tailcloud.data import Dataset, Split
from tailcloud.data.batches.joined import JoinedLoader
from tailcloud.data.batches.pieces import WHOLE
from tailcloud.data.batches.plan import Loader
from tailcloud.data.batches.planned import PlannedLoader
from tailcloud.data.batches.transform import Normalise
from tailcloud.data.planes.decoders import Decoders
from tailcloud.data.planes.face import AnyImages, as_tested, automatic_workers, bring, for_resized_crops, is_streamed
from tailcloud.data.planes.resident import ResidentImages, ResidentLoader
from tailcloud.data.planes.stream import StreamImages, StreamLoader
from tailcloud.errors import UsageError
from tailcloud.evaluation import Judged, Predictions, gathered, judge
from tailcloud.heads import Head
from tailcloud.kernels import CannotFuse, FusedNetwork, obstacle
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Network, Objective
from tailcloud.optimizers import OPTIMIZERS, Optimizer
from tailcloud.rebalance import CHANGES, HeldOut, Trained
from tailcloud.recipe import Part, Recipe, Stage, head_kinds
from tailcloud.sampling import make_sampler
from tailcloud.stages.effort import images_a_step, passes
from tailcloud.stages.scope import set_trainable
from tailcloud.training import stopping
from tailcloud.training.assumed import assumed_prior
from tailcloud.training.batch_norm import synchronise
from tailcloud.training.compiled import CompiledExecutor
from tailcloud.training.devices import environment
from tailcloud.training.distributed import ALONE, World
from tailcloud.training.executors import EagerExecutor, Executor, GraphedExecutor
from tailcloud.training.graphs import GraphedJudge
from tailcloud.training.held_out import held_out
from tailcloud.training.pieced import PieceExecutor, check_pieces
from tailcloud.training.step import Step


def architecture(recipe: Recipe, dataset: Dataset, head: str | None = None) -> Architecture:
    """The model that a recipe trains on a data set, with the head that its last stage leaves, or another one."""
    model, last = recipe.model, list(head_kinds(recipe).values())[-1]
    return Architecture(model.backbone, head or last, model.width, dataset.shape[2], dataset.classes)


EXECUTORS: dict[str, Callable[[Step, Loader], Executor]] = {
    "eager": EagerExecutor,
    "compiled": CompiledExecutor,
    "graphed": GraphedExecutor,
}

COMPILING_PAYS = 2e14  # FLOPs of a whole run on a CPU; see docs/executors.md


def unfused(failure: CannotFuse) -> str:
    """What the person at the keyboard should know."""
    return f"The fused kernels do not compile here ({failure}); PyTorch's own are used, which are slower."


def _chosen(asked: str, automatic: str) -> str:
    return automatic if asked == "auto" else asked


@dataclass(frozen=True)
class StageParts:
    """What one stage works with."""

    name: str
    stage: Stage
    loader: Loader
    parameters: dict[str, nn.Parameter]
    optimizer: Optimizer
    executor: Executor
    objective: Objective

    @property
    def scale(self) -> float:
        """What stretches the model's outputs to logits."""
        return self.objective.loss.scale


class Session:
    """Everything a run has on the device."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device, world: World = ALONE) -> None:
        self.recipe, self.dataset, self.device, self.world = recipe, dataset, device, world
        self.share = world.share(recipe.engine.accumulate)
        self.architecture = architecture(recipe, dataset)
        self.model = build_classifier(architecture(recipe, dataset, recipe.model.head), recipe.seed)
        self.pretrained = self.load_weights()
        self.model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.transform = Normalise(self.dataset.mean, self.dataset.std, device)
        self.streamed = is_streamed(dataset.train)
        self.decoders = Decoders(recipe.engine.workers or automatic_workers())
        self.train = self.bring(for_resized_crops(dataset.train) if recipe.augment.area else dataset.train)
        self.test = self.bring(dataset.test)
        self.val = self.bring(as_tested(dataset.val, dataset.test)) if dataset.val else None
        self.executor = _chosen(recipe.engine.executor, self.automatic_executor)
        if self.executor == "graphed" and self.streamed:
            raise UsageError(
                'engine.executor = "graphed" needs all images on the GPU, and these stay in their files; leave it at '
                '"auto", or set data.plane = "resident"'
            )
        self.remarks: list[str] = []
        self.overflows: list[str] = []  # what is to be known of outputs that are no numbers
        if recipe.data.cache != "none" and not self.streamed:
            self.remarks.append("There is no use for data.cache here: all images are in memory.")
        if self.in_pieces:
            self.prepare_pieces()
        self.fused = self.fused_network()
        self.judges: dict[tuple[int, float], GraphedJudge] = {}

    def bring(self, split: Split) -> AnyImages:
        """A part of the data on its plane."""
        return bring(split, self.device, self.decoders, self.recipe.data.cache)

    @cached_property
    def seen(self) -> AnyImages:
        """Training images as test images are seen: nothing is varied."""
        if not self.streamed:
            return self.train
        return bring(as_tested(self.dataset.train, self.dataset.test), self.device, self.decoders)

    def load_weights(self) -> Pretrained | None:
        """Start from the recipe's weights, if it names some; the images are then normalised as these expect it."""
        model = self.recipe.model
        if not model.weights:
            return None
        file = find_weights(model.weights, self.recipe.root)
        start = load_pretrained(self.model.backbone, file, self.dataset.shape[2], model.weights_sha256)
        self.dataset = replace(self.dataset, mean=start.mean, std=start.std)
        return start

    @property
    def in_pieces(self) -> bool:
        """Whether batches are computed in pieces, by several processes or one after the other."""
        return self.share != WHOLE

    def prepare_pieces(self) -> None:
        """Refuse what cannot be cut; steps are eager, since graphs, compiled steps and fused kernels take batches."""
        with self.world.one_voice():
            for name, stage in self.recipe.stages.items():
                if stage.epochs:
                    check_pieces(self.plain_objective(stage), name)
            if self.recipe.engine.sync_batch_norm:
                synchronise(self.model, self.world)
        if self.executor != "eager":
            self.remarks.append(f"Batches are computed in pieces here, so steps run eagerly and not {self.executor}.")
        self.executor = "eager"

    def fused_network(self) -> FusedNetwork | None:
        """The model in fused kernels, where these can compute it; if they should and cannot, a remark or an error."""
        asked, reason = self.recipe.engine.kernels, self.obstacle()
        if asked == "fused" and reason:
            raise UsageError(f'engine.kernels = "fused" is not possible here: {reason}')
        if asked == "plain" or reason:
            return None
        network = FusedNetwork(self.model, *self.dataset.shape[:2])
        try:
            network.backbone.compile()
        except CannotFuse as failure:
            self.remarks.append(unfused(failure))
            return None
        return network

    def obstacle(self) -> str | None:
        """Why this run cannot be computed by fused kernels, if so."""
        augment, stages = self.recipe.augment, self.recipe.stages.values()
        reasons = {
            "they need --device cuda": self.device.type != "cuda",
            f'they compute in bfloat16, not in engine.precision = "{self.precision}"': self.precision != "bfloat16",
            "they compute whole batches, and engine.accumulate or several processes cut them": self.in_pieces,
            'engine.executor = "compiled" makes kernels of its own': self.executor == "compiled",
            "they take images that are on the GPU, and these stay in their files": self.streamed,
            "they train a backbone as a whole": any(stage.backbone_parts for stage in stages),
            "they know no augment.area and no augment.jitter": bool(augment.area or augment.jitter),
        }
        found = next((reason for reason, holds in reasons.items() if holds), None)
        return found or obstacle(self.model, *self.dataset.shape[:2])

    def unfuse(self) -> None:
        """Go on with PyTorch's own kernels."""
        self.fused = None
        self.judges.clear()

    def loss(self, stage: Stage) -> Loss:
        """The loss of a stage, knowing the class counts."""
        counts = self.dataset.profile.counts.tolist()
        return LOSSES[stage.loss.name](counts, **stage.loss.options).to(self.device)

    def parts(self, name: str, stage: Stage) -> StageParts:
        """Loader, objective and optimiser of a stage; freezes what the stage does not train."""
        objective = self.objective(stage)
        loader = self.loader(name, stage, objective)
        parameters = set_trainable(self.model, stage)
        make = OPTIMIZERS[stage.optimizer.name]
        optimizer = make(stage, parameters, self.device, **stage.optimizer.options)
        step = Step(self.model, objective, optimizer, self.precision == "bfloat16", self.network)
        executor = PieceExecutor(step, loader, self.world) if self.in_pieces else EXECUTORS[self.executor](step, loader)
        return StageParts(name, stage, loader, parameters, optimizer, executor, objective)

    def objective(self, stage: Stage) -> Objective:
        """What a stage minimises, in fused kernels where these can compute it."""
        plain = self.plain_objective(stage)
        return self.fused.objective(plain) if self.fused else plain

    def plain_objective(self, stage: Stage) -> Objective:
        """What a stage minimises, in PyTorch's kernels."""
        counts, features = self.dataset.profile.counts.tolist(), self.model.backbone.features
        make = OBJECTIVES[stage.objective.name]
        return make(self.loss(stage), counts, features, **stage.objective.options).to(self.device)

    def loader(self, name: str, stage: Stage, objective: Objective) -> Loader:
        """The batches of a stage: one stream, or as many as its objective asks for."""
        first = self.stream(name, stage, stage.sampler)
        view = self.stream(name, stage, stage.sampler, views="second views") if objective.views else None
        second = self.stream(f"{name} second", stage, stage.second) if stage.second else None
        return JoinedLoader(first, view=view, second=second) if view or second else first

    def stream(self, name: str, stage: Stage, sampler: Part, views: str = "views") -> PlannedLoader[Any]:
        """Batches of one sampler; the draws follow from the names."""
        augment = self.recipe.augment
        return self.loader_kind(
            self.train,
            make_sampler(sampler.name, self.dataset.train.labels, self.dataset.classes, **sampler.options),
            self.transform,
            batch=stage.batch,
            crop_padding=augment.crop_padding,
            flip=augment.flip,
            area=augment.area,
            ratio=augment.ratio,
            jitter=augment.jitter,
            shape=self.dataset.shape[:2],
            mixup=stage.mixup,
            seed=self.recipe.seed,
            stage=name,
            epochs=stage.epochs,
            views=views,
            share=self.share,
        )

    @property
    def loader_kind(self) -> type[PlannedLoader[Any]]:
        """What makes batches: of images in files, by a fused kernel, or of images on the device."""
        if self.streamed:
            return StreamLoader
        return self.fused.loader if self.fused else ResidentLoader

    def open_stage(self, name: str) -> list[str]:
        """Before the first step of a stage: the head that it starts with, made from the one that was trained.

        What there is to say about that is returned.
        """
        stage, old = self.recipe.stages[name], self.model.head
        change = CHANGES[stage.head.name](self.dataset.profile.counts.tolist(), **stage.head.options)
        self.model.eval()
        new = fresh_head(self.model, head_kinds(self.recipe)[name], self.recipe.seed)
        said: list[str] = []
        with torch.no_grad():
            change.apply(
                old, new, Trained(self.loss(stage).scale, self.features, partial(self.held_out, name), said.append)
            )
        self.use_head(new)
        return [f"{name}: {sentence}" for sentence in said]

    def shape_head(self, name: str) -> None:
        """A head of the kind that a stage trains, for weights that will be loaded into it."""
        self.use_head(fresh_head(self.model, head_kinds(self.recipe)[name], self.recipe.seed))

    def use_head(self, head: Head) -> None:
        """Go on with another head; what was captured with the old one is forgotten."""
        self.model.head = head
        self.judges.clear()

    @torch.no_grad()
    def features(self) -> tuple[Tensor, Tensor]:
        """What the model sees in every training image as it is stored, and the classes."""
        self.model.eval()
        batches = self.seen.in_order(self.transform)
        return torch.cat([self.model.features(batch.images).float() for batch in batches]), self.train.labels

    def held_out(self, before: str) -> HeldOut | None:
        """What the model says about the validation images before a stage; None where they are too few."""
        counts = self.dataset.profile.counts.tolist()
        return held_out(self.model, self.val, self.transform, assumed_prior(self.recipe, counts, before))

    def predict(self, images: AnyImages, scale: float) -> Predictions:
        """What the model says about a part of the data, now.

        Raises:
            BrokenOff: in all processes, if one of them was asked to end meanwhile.
        """
        self.model.eval()
        own = None
        with suppress(stopping.BrokenOff):
            own = gathered(self.judged(images, scale), self.dataset.classes)
        (broken,) = self.world.any(own is None)
        if broken or own is None:
            raise stopping.BrokenOff("stopped by SIGTERM")
        return Predictions.joined(self.world.gather(own))

    def judged(self, images: AnyImages, scale: float) -> Judged:
        """The same, still on the device: from a graph where steps are graphs too; by several processes in turn."""
        if self.executor != "graphed" or not isinstance(images, ResidentImages):
            batches = images.in_order(self.transform, self.world.share())
            return judge(self.network, stopping.while_wanted(batches), scale)
        key = id(images), scale
        if key not in self.judges:
            self.judges[key] = GraphedJudge(self.network, images, self.transform, scale)
        return self.judges[key]()

    @property
    def network(self) -> Network:
        """What computes the model's outputs: fused kernels, or the model itself."""
        return self.fused or self.model

    @property
    def work(self) -> int:
        """FLOPs of one training step of everything."""
        return 3 * max(map(images_a_step, self.recipe.stages.values())) * self.cost.flops

    @property
    def work_in_all(self) -> int:
        """FLOPs of all training steps."""
        stages = self.recipe.stages.values()
        shown = sum(passes(stage) * stage.epochs * images_a_step(stage) / stage.batch for stage in stages)
        return round(shown * len(self.dataset.train) * self.cost.flops)

    @property
    def cost(self) -> Cost:
        """What the model costs, as it is now."""
        height, width, channels = self.dataset.shape
        return cost_of(self.model, channels, height, width)

    def share_faults(self) -> None:
        """From now on every process knows which images any of them could not read; too many of them stop the run."""
        parts = [part for part in (self.train, self.val, self.test) if isinstance(part, StreamImages)]
        met = self.world.gather([dict(part.unreadable) for part in parts])
        with self.world.one_voice():
            for found in met:
                for part, reasons in zip(parts, found, strict=True):
                    part.learn(reasons)

    @property
    def faults(self) -> list[str]:
        """What happened to images on their way to the model."""
        parts = {"Training": self.train, "Validation": self.val, "Test": self.test}
        return [f"{name}: {remark}" for name, part in parts.items() if part for remark in part.remarks]

    @property
    def environment(self) -> dict[str, Any]:
        """What a bit-for-bit repetition depends on."""
        start = {"weights": self.pretrained.sha256} if self.pretrained else {}
        steps = {"executor": self.executor, "plane": "stream" if self.streamed else "resident"}
        return {**environment(self.device), **steps, **self.arithmetic, **self.sharing, **start}

    @property
    def sharing(self) -> dict[str, int | bool]:
        """Into how many pieces batches are cut, and whether batch norm sees all of them."""
        engine, ranks = self.recipe.engine, self.world.size
        return {
            "ranks": ranks,
            "accumulate": engine.accumulate,
            "sync_batch_norm": engine.sync_batch_norm and ranks > 1,
        }

    @property
    def arithmetic(self) -> dict[str, str]:
        """What rounds the results."""
        return {"precision": self.precision, "kernels": "fused" if self.fused else "plain"}

    @property
    def automatic_executor(self) -> str:
        """How steps are run unless the recipe says: as CUDA graphs; on a CPU compiled if the run is long enough.

        Graphs need all images on the device.
        """
        if self.device.type == "cpu":
            return "compiled" if self.work_in_all >= COMPILING_PAYS else "eager"
        return "graphed" if self.device.type == "cuda" and not self.streamed else "eager"

    @property
    def precision(self) -> str:
        """What the model computes in: bfloat16 on CUDA, float32 elsewhere, unless the recipe says otherwise."""
        return _chosen(self.recipe.engine.precision, "bfloat16" if self.device.type == "cuda" else "float32")

    @cached_property
    def best_on(self) -> str:
        """The part on which the best epoch is found: validation if there is one, else test, and labelled so."""
        return "val" if self.val else "test"
