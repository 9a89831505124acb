"""The loop: one for all stages, readable from top to bottom.

    for each stage:    what may move, which images, which loss
        for each epoch:    steps, evaluation, a line in the log, a checkpoint (and within a long epoch)

Between two checkpoints nothing is remembered outside of them, and all randomness follows from (seed, part, epoch):
a run that is killed and resumed ends bit for bit where it would have ended.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError
from tailcloud.kernels import CannotFuse
from tailcloud.recipe import Recipe
from tailcloud.runs.checkpoint import Checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.runs.progress import Progress
from tailcloud.runs.result_writer import finish
from tailcloud.training import signals
from tailcloud.training.checkpoint_policy import Keeper, terminated
from tailcloud.training.devices import make_repeatable, use_threads
from tailcloud.training.distributed.world import ALONE, World
from tailcloud.training.engine import unfused
from tailcloud.training.epoch_logging import watch
from tailcloud.training.error_examples import write_examples
from tailcloud.training.executors.compiled import CannotCompile
from tailcloud.training.executors.cuda_graph import Standing
from tailcloud.training.resume import resume
from tailcloud.training.schedule import learning_rate
from tailcloud.training.session import Session
from tailcloud.training.stage_metrics import conclude, evaluate_epoch
from tailcloud.training.stages.parts import StageParts, make_parts
from tailcloud.training.stages.start import open_stage
from tailcloud.training.stages.trainable import set_modes
from tailcloud.training.tensorboard_log import observed


def train(
    recipe: Recipe,
    dataset: Dataset,
    folder: RunFolder,
    device: torch.device,
    observer: Observer,
    world: World = ALONE,
) -> dict[str, Any]:
    """Train a run from where its folder stands to its end; the result is also in the folder.

    Of the processes in a ``world`` the chief alone reads and writes the folder, and has the result.
    """
    observer = observed(recipe, folder.path, observer) if world.chief else observer
    make_repeatable(device)
    with signals.at_once():  # there is nothing to save yet
        session = world.everywhere(partial(Session, recipe, dataset, device, world))
    use_threads(recipe, session.work)
    for remark in session.remarks:
        observer.note(remark)
    progress, checkpoint = resume(session, folder, observer)
    if any(world.any(signals.asked())):
        raise terminated(folder)
    for name, stage in recipe.stages.items():
        if name in {done["name"] for done in progress.finished}:
            continue
        if name != progress.stage:
            progress.next_stage(name)
        train_stage(session, folder, progress, checkpoint, observer)
        progress.finished.append(conclude(session, progress, stage, observer))
        checkpoint = None
    session.images.share_faults(world)
    with signals.at_once():  # all that is trained is saved
        write_examples(session, folder, progress.finished[-1]["per_class"])
        return finish(session, folder, progress) if world.chief else {}


def train_stage(
    session: Session, folder: RunFolder, progress: Progress, checkpoint: Checkpoint | None, observer: Observer
) -> None:
    """Train the epochs of the current stage that are still to do."""
    name, stage = progress.stage, session.recipe.stages[progress.stage]
    if progress.epoch == progress.step == 0:
        with signals.at_once():  # the stage before it is saved
            remarks = open_stage(session, name)
        for remark in remarks:
            progress.changes.append(remark)
            observer.note(remark)
        session.world.spread(session.model.state_dict().values())
    observer.stage_started(name, stage, progress.epoch)
    if progress.epoch == stage.epochs:  # a change of the head alone, or the first stage of another run
        return
    started = time.perf_counter()
    parts = ready(session, name, observer)
    if checkpoint:
        parts.optimizer.restore(checkpoint.tensors)
    left = Standing(**checkpoint.group("standing")) if checkpoint and progress.step else None
    progress.seconds += time.perf_counter() - started
    keeper = Keeper(session, folder, progress, parts)
    for epoch in range(progress.epoch, stage.epochs):
        keeper.epoch_begins()
        lr = learning_rate(stage, epoch)
        loss = train_epoch(session, parts, epoch, lr, left, keeper.between_steps)
        left = None
        line: dict[str, Any] = {"stage": name, "epoch": epoch + 1, "lr": lr, "loss": loss}
        if (epoch + 1) % session.recipe.selection.every == 0 or epoch + 1 == stage.epochs:
            with keeper.measuring(), parts.optimizer.averaged():
                line |= evaluate_epoch(session, parts, progress, epoch + 1)
                line |= watch(session, parts, epoch + 1) if session.world.chief else {}
        session.images.share_faults(session.world)
        line["seconds"] = progress.spent + time.perf_counter() - keeper.began
        progress.seconds += line["seconds"]
        progress.begin_epoch(epoch + 1)
        if session.world.chief:
            folder.append_log(line)
        if progress.epoch == stage.epochs:
            parts.optimizer.use_average()
        stop = keeper.epoch_ends(last=progress.epoch == stage.epochs)
        observer.epoch_done(line)
        if stop:
            raise terminated(folder)


def ready(session: Session, name: str, observer: Observer) -> StageParts:
    """The parts of a stage, made ready to run. What cannot be compiled runs as PyTorch has it, and the run says so."""
    stage = session.recipe.stages[name]
    parts = make_parts(session, name)
    set_modes(session.model, stage)
    try:
        parts.executor.prepare()
    except CannotCompile as failure:
        session.engine.executor = "eager"
        observer.note(str(failure))
    except CannotFuse as failure:
        session.unfuse()
        observer.note(unfused(failure))
        return ready(session, name, observer)
    return parts


def train_epoch(
    session: Session,
    parts: StageParts,
    epoch: int,
    lr: float,
    left: Standing | None = None,
    between: Callable[[], None] | None = None,
) -> float:
    """One pass over the sampled images, or the rest of one; the mean loss.

    Nothing is read from the device before the end. Batch-norm statistics are then those of the chief.
    """
    set_modes(session.model, parts.stage)
    parts.objective.advance(parts.loader.share(epoch))
    losses = parts.executor.epoch(epoch, lr, left=left, between=between)
    with session.world.one_voice():
        check_finite(losses, parts, epoch, lr)
    session.world.spread(session.model.buffers())
    return float(losses.mean())


def check_finite(losses: Tensor, parts: StageParts, epoch: int, lr: float) -> None:
    """Stop a run whose loss or weights are not numbers any more; the last good checkpoint stays."""
    weights = torch.stack([parameter.detach().sum() for parameter in parts.parameters.values()])
    bad = torch.cat([~torch.isfinite(losses), ~torch.isfinite(weights).all()[None]]).nonzero()
    if len(bad):
        step = min(int(bad[0]) + 1, len(losses))
        what = "loss" if int(bad[0]) < len(losses) else "model's weights"
        raise TailcloudError(
            f"the {what} became NaN or infinite in {parts.name}, epoch {epoch + 1}, step {step} of {len(losses)}; "
            f"the checkpoint before it is kept. The usual cause is a learning rate that is too high: "
            f"start a new run with --set {parts.name}.lr={lr / 10:g}, or a smaller {parts.name}.loss.scale"
        )
