"""What one stage trains with: batches, an objective, an optimiser and an executor."""

from dataclasses import dataclass

from torch import nn

from tailcloud.data.augment import Augment
from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.multi_stream import JoinedLoader
from tailcloud.objectives import Objective
from tailcloud.objectives.distillation import Distillation
from tailcloud.objectives.drop_path import DropPath, drop_rates
from tailcloud.optimizers import OPTIMIZERS, Optimizer, SharpnessAware
from tailcloud.recipe import PartSpec, Stage
from tailcloud.sampling import Sampler, make_sampler
from tailcloud.training.executors import EXECUTORS
from tailcloud.training.executors.base import Executor
from tailcloud.training.executors.micro_batch import MicroBatchExecutor
from tailcloud.training.executors.step import TrainingStep
from tailcloud.training.session import Session
from tailcloud.training.stages.factory import make_objective
from tailcloud.training.stages.trainable import set_trainable

UNMIXED = {"mixup": 0.0, "cutmix": 0.0, "cutmix_sampler": None, "cutmix_probability": None}  # fields of a stage


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
    session.freeze_layers(stage)
    make = OPTIMIZERS[stage.optimizer.name]
    layers = session.model.layers() if stage.layer_decay < 1 else []
    optimizer = make(stage, parameters, session.device, layers, **stage.optimizer.options)
    sam = SharpnessAware(parameters, session.model.buffers(), stage.sam) if stage.sam else None
    trained = _with_drop_path(session, _with_teachers(session, name, objective))
    executor = _make_executor(session, trained, optimizer, loader, sam)
    return StageParts(name, stage, loader, parameters, optimizer, executor, objective)


def _make_executor(
    session: Session, objective: Objective, optimizer: Optimizer, loader: Loader, sam: SharpnessAware | None
) -> Executor:
    half = session.engine.precision == "bfloat16"
    step = TrainingStep(session.model, objective, optimizer, half, session.network, sam)
    if session.engine.uses_micro_batches:
        return MicroBatchExecutor(step, loader, session.world)
    return EXECUTORS[session.executor](step, loader)


def _make_objective(session: Session, name: str) -> Objective:
    """The objective of a stage, in fused kernels if they can compute it; teachers need outputs, which these skip."""
    stage, counts, fused = session.recipe.stages[name], session.dataset.profile.counts.tolist(), session.fused
    plain = make_objective(stage, session.loss(stage), counts, session.model.backbone.features).to(session.device)
    return fused.objective(plain) if fused and not session.recipe.distillation(name) else plain


def _with_teachers(session: Session, name: str, objective: Objective) -> Objective:
    """The objective with the divergence from the teachers, if the stage has some; in the kernels of the session."""
    distill = session.recipe.distillation(name)
    if not distill:
        return objective
    teachers = session.teachers
    assert teachers is not None
    if session.fused:
        teachers.use_fused_kernels(*session.dataset.shape[:2])
    else:
        teachers.use_plain_kernels()
    return Distillation(objective, teachers, temperature=distill.temperature, weight=distill.weight)


def _with_drop_path(session: Session, objective: Objective) -> Objective:
    """The objective with drop path in the blocks that are trained, if the recipe wants it."""
    largest = session.recipe.model.drop_path
    rates = drop_rates(session.model.backbone.residual_blocks(), largest) if largest else []
    return DropPath(objective, rates).to(session.device) if any(rates) else objective


def _make_loader(session: Session, name: str, objective: Objective) -> Loader:
    """The batches of a stage, with further views or a second sampler's batches if its objective needs them."""
    stage = session.recipe.stages[name]
    first = _sampled(session, name, stage, stage.sampler)
    varied, unmixed = session.recipe.view_augment, stage.model_copy(update=UNMIXED)
    views = [_sampled(session, name, unmixed, stage.sampler, views, varied) for views in view_names(objective.views)]
    second = _sampled(session, f"{name} second", stage, stage.second_sampler) if stage.second_sampler else None
    return JoinedLoader(first, views=views, second=second) if views or second else first


def view_names(number: int) -> list[str]:
    """The names of the draws of so many further views."""
    return ["second views", *(f"views {view}" for view in range(3, number + 2))][:number]


def _sampled(
    session: Session,
    name: str,
    stage: Stage,
    sampler: PartSpec,
    views: str = "views",
    augment: Augment | None = None,
) -> Loader:
    """The batches of one sampler; all draws are derived from ``name`` and ``views``. By default as [augment] says."""
    return session.loader(
        _sampler_of(session, sampler),
        batch=stage.batch,
        augment=augment or session.recipe.augment,
        shape=session.dataset.shape[:2],
        mixup=stage.mixup,
        cutmix=stage.cutmix,
        cutmix_sampler=_sampler_of(session, stage.cutmix_sampler) if stage.cutmix_sampler else None,
        cutmix_probability=stage.cutmix_probability,
        seed=session.recipe.seed,
        stage=name,
        epochs=stage.epochs,
        views=views,
        share=session.engine.share,
    )


def _sampler_of(session: Session, part: PartSpec) -> Sampler:
    dataset = session.dataset
    return make_sampler(part.name, dataset.train.labels, dataset.classes, **part.options)
