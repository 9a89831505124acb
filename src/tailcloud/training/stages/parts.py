"""What one stage of a run works with: batches, an objective, an optimiser, and what runs its steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from tailcloud.data.loaders.base import PlannedLoader
from tailcloud.data.loaders.epoch_plan import Loader
from tailcloud.data.loaders.joined import JoinedLoader
from tailcloud.data.loaders.resident import ResidentLoader
from tailcloud.data.loaders.stream import StreamLoader
from tailcloud.objectives import Objective
from tailcloud.optimizers import OPTIMIZERS, Optimizer
from tailcloud.recipe import Part, Stage
from tailcloud.sampling import make_sampler
from tailcloud.training.executors.compiled import CompiledExecutor
from tailcloud.training.executors.cuda_graph import EagerExecutor, Executor, GraphedExecutor
from tailcloud.training.executors.micro_batch import PieceExecutor
from tailcloud.training.executors.step import Step
from tailcloud.training.session import Session
from tailcloud.training.stages.factory import make_objective
from tailcloud.training.stages.trainable import set_trainable

EXECUTORS: dict[str, Callable[[Step, Loader], Executor]] = {
    "eager": EagerExecutor,
    "compiled": CompiledExecutor,
    "graphed": GraphedExecutor,
}


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


def make_parts(session: Session, name: str) -> StageParts:
    """The parts of the stage of that name; freezes what the stage does not train."""
    stage, engine = session.recipe.stages[name], session.engine
    objective = _objective(session, stage)
    loader = _loader(session, name, objective)
    parameters = set_trainable(session.model, stage)
    make = OPTIMIZERS[stage.optimizer.name]
    optimizer = make(stage, parameters, session.device, **stage.optimizer.options)
    step = Step(session.model, objective, optimizer, engine.precision == "bfloat16", engine.network)
    pieces = engine.in_pieces
    executor = PieceExecutor(step, loader, session.world) if pieces else EXECUTORS[engine.executor](step, loader)
    return StageParts(name, stage, loader, parameters, optimizer, executor, objective)


def _objective(session: Session, stage: Stage) -> Objective:
    """What a stage minimises, in fused kernels where these can compute it."""
    counts, fused = session.dataset.profile.counts.tolist(), session.engine.fused
    plain = make_objective(stage, session.loss(stage), counts, session.model.backbone.features).to(session.device)
    return fused.objective(plain) if fused else plain


def _loader(session: Session, name: str, objective: Objective) -> Loader:
    """The batches of a stage: one stream, or as many as its objective asks for."""
    stage = session.recipe.stages[name]
    first = _stream(session, name, stage, stage.sampler)
    view = _stream(session, name, stage, stage.sampler, views="second views") if objective.views else None
    second = _stream(session, f"{name} second", stage, stage.second_sampler) if stage.second_sampler else None
    return JoinedLoader(first, view=view, second=second) if view or second else first


def _stream(session: Session, name: str, stage: Stage, sampler: Part, views: str = "views") -> PlannedLoader[Any]:
    """Batches of one sampler; the draws follow from the names."""
    dataset, augment = session.dataset, session.recipe.augment
    return _loader_kind(session)(
        session.images.train,
        make_sampler(sampler.name, dataset.train.labels, dataset.classes, **sampler.options),
        session.transform,
        batch=stage.batch,
        crop_padding=augment.crop_padding,
        flip=augment.flip,
        area=augment.crop_area,
        ratio=augment.crop_ratio,
        jitter=augment.color_jitter,
        shape=dataset.shape[:2],
        mixup=stage.mixup,
        seed=session.recipe.seed,
        stage=name,
        epochs=stage.epochs,
        views=views,
        share=session.engine.share,
    )


def _loader_kind(session: Session) -> type[PlannedLoader[Any]]:
    """What makes batches: of images in files, by a fused kernel, or of images on the device."""
    if session.images.streamed:
        return StreamLoader
    return session.engine.fused.loader if session.engine.fused else ResidentLoader
