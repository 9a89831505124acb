"""What one stage trains with: batches, an objective, an optimiser and an executor."""

from dataclasses import dataclass

from torch import nn

from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.multi_stream import JoinedLoader
from tailcloud.objectives import Objective
from tailcloud.objectives.distillation import Distillation
from tailcloud.objectives.drop_path import DropPath, drop_rates
from tailcloud.optimizers import OPTIMIZERS, Optimizer
from tailcloud.recipe import PartSpec, Stage
from tailcloud.sampling import make_sampler
from tailcloud.training.executors import EXECUTORS
from tailcloud.training.executors.base import Executor
from tailcloud.training.executors.micro_batch import MicroBatchExecutor
from tailcloud.training.executors.step import TrainingStep
from tailcloud.training.session import Session
from tailcloud.training.stages.factory import make_objective
from tailcloud.training.stages.trainable import set_trainable


@dataclass(frozen=True)
class StageParts:
    """What one stage trains with."""

    name: str
    stage: Stage
    loader: Loader
    parameters: dict[str, nn.Parameter]
    optimizer: Optimizer
    executor: Executor
    objective: Objective

    @property
    def scale(self) -> float:
        """The factor from the model's outputs to logits."""
        return self.objective.loss.scale


def make_parts(session: Session, name: str) -> StageParts:
    """The parts of the stage of that name; freezes what the stage does not train."""
    stage = session.recipe.stages[name]
    session.trained_on_images = session.trained_on_images or not stage.views
    objective = _make_objective(session, name)
    loader = _make_loader(session, name, objective)
    parameters = set_trainable(session.model, stage)
    make = OPTIMIZERS[stage.optimizer.name]
    layers = session.model.layers() if stage.layer_decay < 1 else []
    optimizer = make(stage, parameters, session.device, layers, **stage.optimizer.options)
    trained = _with_drop_path(session, _with_teachers(session, name, objective))
    executor = _make_executor(session, trained, optimizer, loader)
    return StageParts(name, stage, loader, parameters, optimizer, executor, objective)


def _make_executor(session: Session, objective: Objective, optimizer: Optimizer, loader: Loader) -> Executor:
    half = session.engine.precision == "bfloat16"
    step = TrainingStep(session.model, objective, optimizer, half, session.network)
    if session.engine.uses_micro_batches:
        return MicroBatchExecutor(step, loader, session.world)
    return EXECUTORS[session.executor](step, loader)


def _make_objective(session: Session, name: str) -> Objective:
    """The objective of a stage, in fused kernels if they can compute it; teachers need outputs, which these skip."""
    stage, counts, fused = session.recipe.stages[name], session.dataset.profile.counts.tolist(), session.fused
    plain = make_objective(stage, session.loss(stage), counts, session.model.backbone.features).to(session.device)
    return fused.objective(plain) if fused and not session.recipe.distillation(name) else plain


def _with_teachers(session: Session, name: str, objective: Objective) -> Objective:
    """The objective with the divergence from the teachers, if the stage has some."""
    distill = session.recipe.distillation(name)
    if not distill or session.teachers is None:
        return objective
    return Distillation(objective, session.teachers, temperature=distill.temperature, weight=distill.weight)


def _with_drop_path(session: Session, objective: Objective) -> Objective:
    """The objective with drop path in the blocks that are trained, if the recipe wants it."""
    largest = session.recipe.model.drop_path
    rates = drop_rates(session.model.backbone.residual_blocks(), largest) if largest else []
    return DropPath(objective, rates).to(session.device) if any(rates) else objective


def _make_loader(session: Session, name: str, objective: Objective) -> Loader:
    """The batches of a stage, with a second view or a second sampler's batches if its objective needs them."""
    stage = session.recipe.stages[name]
    first = _sampled(session, name, stage, stage.sampler)
    view = _sampled(session, name, stage, stage.sampler, views="second views") if objective.views else None
    second = _sampled(session, f"{name} second", stage, stage.second_sampler) if stage.second_sampler else None
    return JoinedLoader(first, view=view, second=second) if view or second else first


def _sampled(session: Session, name: str, stage: Stage, sampler: PartSpec, views: str = "views") -> Loader:
    """The batches of one sampler; all draws are derived from ``name`` and ``views``."""
    dataset = session.dataset
    return session.loader(
        make_sampler(sampler.name, dataset.train.labels, dataset.classes, **sampler.options),
        batch=stage.batch,
        augment=session.recipe.augment,
        shape=dataset.shape[:2],
        mixup=stage.mixup,
        cutmix=stage.cutmix,
        seed=session.recipe.seed,
        stage=name,
        epochs=stage.epochs,
        views=views,
        share=session.engine.share,
    )
