"""The training loop. Read this first: it goes from the run to its stages, its epochs and their steps.

    train               a run: for each stage, train it and measure it; then keep a stage's model, and write the result
      train_stage         transform the head, prepare batches, loss and optimiser; then, for each epoch:
        train_epoch         all steps of the epoch (``executors`` run them)
        evaluate            the accuracy after the epoch, if it is one that is evaluated (``evaluation_schedule``)
        finish_epoch        a line in the log, and a checkpoint (a ``Checkpointer`` also saves within long epochs)

A checkpoint has everything that the rest of a run depends on, and all randomness follows from (seed, part, epoch): a
run that is killed and resumed ends with the same bits as one that was not interrupted.

Several processes (ranks) run this code together. Lines with ``world`` exchange data between them; with one process they
do nothing.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError
from tailcloud.flat_copy import to_cpu
from tailcloud.kernels import CannotFuse
from tailcloud.recipe import Recipe
from tailcloud.runs.checkpoint import Checkpoint, TrainingProgress
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result
from tailcloud.training import signals
from tailcloud.training.checkpoint_policy import Checkpointer, terminated, unfinished_epoch
from tailcloud.training.devices import set_deterministic, set_threads
from tailcloud.training.distributed.world import SINGLE_PROCESS, World
from tailcloud.training.engine import unfused
from tailcloud.training.evaluation_schedule import is_evaluated
from tailcloud.training.executors.base import EpochState
from tailcloud.training.executors.compiled import CannotCompile
from tailcloud.training.held_out_gap import note_held_out_gap
from tailcloud.training.kept_stage import keep_stage
from tailcloud.training.resume import checkpoint_errors, resume
from tailcloud.training.run_examples import write_examples
from tailcloud.training.run_result import finish_run, kept_figures
from tailcloud.training.schedule import EarlyEnd, StageSchedule
from tailcloud.training.session import Session
from tailcloud.training.stage_metrics import evaluate_epoch, finish_stage, log_gradients
from tailcloud.training.stages.parts import StageParts, make_parts
from tailcloud.training.stages.start import start_stage
from tailcloud.training.stages.trainable import set_modes
from tailcloud.training.tensorboard_log import with_tensorboard
from tailcloud.training.time_limit import StageClock, TimeLimit


def train(
    recipe: Recipe,
    dataset: Dataset,
    folder: RunFolder,
    device: torch.device,
    observer: Observer,
    world: World = SINGLE_PROCESS,
    limit: TimeLimit | None = None,
) -> Result | None:
    """Train a run to its end, from its newest checkpoint if there is one; the result is also written to the folder.

    With a ``limit``, stages end earlier if the machine is too slow for all of their epochs. Only rank 0 reads and
    writes the folder and returns the result; other ranks return None.
    """
    observer = with_tensorboard(recipe, folder.path, observer) if world.rank0 else observer
    set_deterministic(device)
    with signals.stop_immediately():  # there is nothing to save yet
        session = world.on_all_ranks(partial(Session, recipe, dataset, device, world))
    session.note = observer.note
    set_threads(recipe, session.step_flops)
    for remark in session.remarks:
        observer.note(remark)
    progress, checkpoint = resume(session, folder, observer)
    if any(world.any(signals.stop_requested())):
        raise terminated(folder)
    for name, stage in recipe.stages.items():
        if name in {done["name"] for done in progress.finished}:
            continue
        if name != progress.stage:
            progress.next_stage(name)
        train_stage(session, folder, progress, checkpoint, observer, limit)
        progress.finished.append(finish_stage(session, progress, stage, observer))
        checkpoint = None  # it was of the stage that is now finished
    session.images.share_unreadable(world)
    with signals.stop_immediately():  # everything that was trained is saved
        kept = keep_stage(session, folder, progress, observer)
        write_examples(session, folder, kept_figures(session, progress)["per_class"])
        note_held_out_gap(session, observer)
        return finish_run(session, folder, progress, kept) if world.rank0 else None


def train_stage(
    session: Session,
    folder: RunFolder,
    progress: TrainingProgress,
    checkpoint: Checkpoint | None,
    observer: Observer,
    limit: TimeLimit | None,
) -> None:
    """Train the remaining epochs of the current stage; ``checkpoint`` is the one that the stage continues from."""
    name, stage = progress.stage, session.recipe.stages[progress.stage]
    if progress.epoch == progress.step == 0:
        transform_head(session, progress, observer)
    observer.stage_started(name, stage, progress.epoch)
    if progress.stage_is_over(stage.epochs):  # it only transforms the head, or was taken from another run
        return
    started = time.perf_counter()
    parts = prepare_stage(session, name, observer)
    with checkpoint_errors(folder):
        if checkpoint:
            parts.optimizer.restore(checkpoint.tensors)
        resume_from = unfinished_epoch(checkpoint, progress)
    progress.seconds += time.perf_counter() - started
    steps = parts.loader.steps
    schedule = StageSchedule(stage, steps, EarlyEnd(*progress.early_end) if progress.early_end else None)
    clock = StageClock(schedule, progress.epoch * steps + progress.step, name, limit)
    with Checkpointer(session, folder, progress, parts) as checkpointer:
        while progress.epoch < clock.schedule.epochs:
            checkpointer.epoch_started()
            epoch, rates = progress.epoch, clock.schedule.rates(progress.epoch)
            parts.loader.follow(clock.schedule.progress)
            clock.done = epoch * steps + progress.step
            between = partial(between_steps, checkpointer, clock, rates)
            loss = train_epoch(session, parts, epoch, rates, resume_from, between)
            resume_from = None  # only the first epoch after a resume is unfinished
            line = {"stage": name, "epoch": epoch + 1, "lr": rates[-1], "loss": loss}
            last = is_last(checkpointer, clock, epoch + 1)
            if is_evaluated(epoch + 1, clock.schedule.epochs, session.recipe.selection, session.evaluation_share):
                line |= evaluate(checkpointer, epoch + 1)
            session.images.share_unreadable(session.world)
            if last and (remark := clock.remark()):
                progress.changes.append(remark)
                observer.note(remark)
            finish_epoch(checkpointer, line, observer, last=last)


def between_steps(checkpointer: Checkpointer, clock: StageClock, rates: list[float]) -> None:
    """Between two steps of an epoch: if time is short, shorten ``rates``, and with them the epoch; save if due."""
    progress, world = checkpointer.progress, checkpointer.session.world
    clock.done += 1
    if world.size == 1 and clock.check():
        progress.early_end = clock.early_end
        rates[:] = clock.schedule.rates(progress.epoch)
    checkpointer.between_steps()


def is_last(checkpointer: Checkpointer, clock: StageClock, epochs: int) -> bool:
    """Whether the stage is over after so many epochs; the time limit may have changed that."""
    progress, session = checkpointer.progress, checkpointer.session
    if epochs < clock.schedule.epochs:
        clock.done = epochs * checkpointer.parts.loader.steps
        clock.check(whole_epochs=session.executor == "graphed")
        clock.schedule = session.world.gather(clock.schedule)[0]
        progress.early_end = clock.early_end
    return epochs >= clock.schedule.epochs


def transform_head(session: Session, progress: TrainingProgress, observer: Observer) -> None:
    """Before the first step of a stage: make its head from the trained one. All ranks take the weights of rank 0."""
    started = time.perf_counter()
    with signals.stop_immediately():  # the stage before is saved
        remarks = start_stage(session, progress.stage)
    progress.seconds += time.perf_counter() - started
    for remark in remarks:
        progress.changes.append(remark)
        observer.note(remark)
    session.world.broadcast(session.model.state_dict().values())


def prepare_stage(session: Session, name: str, observer: Observer) -> StageParts:
    """What a stage trains with, compiled or captured. What does not compile runs as plain PyTorch, with a note."""
    stage = session.recipe.stages[name]
    parts = make_parts(session, name)
    set_modes(session.model, stage)
    try:
        parts.executor.prepare()
    except CannotCompile as failure:
        session.engine.executor = "eager"
        observer.note(str(failure))
    except CannotFuse as failure:
        session.use_plain_kernels()
        observer.note(unfused(failure))
        return prepare_stage(session, name, observer)
    return parts


def train_epoch(
    session: Session,
    parts: StageParts,
    epoch: int,
    rates: Sequence[float],
    resume_from: EpochState | None = None,
    between_steps: Callable[[], None] | None = None,
) -> float:
    """Train one epoch, or the rest of an unfinished one (``resume_from``); returns the mean loss.

    ``rates`` has the learning rate of each step. Nothing is copied from the device before the end, and then once. All
    ranks take the batch-norm statistics of rank 0.
    """
    session.predictions.clear()
    set_modes(session.model, parts.stage)
    parts.objective.advance(parts.loader.progress(epoch))
    losses = parts.executor.epoch(epoch, rates, resume_from=resume_from, between_steps=between_steps)
    norms = torch.stack(torch._foreach_norm([parameter.detach() for parameter in parts.parameters.values()]))
    losses, loss, norms = to_cpu([losses, losses.mean(), norms])
    with session.world.rank0_errors():
        check_finite(losses, norms, parts, epoch, max(rates))
    session.world.broadcast(session.model.buffers())
    return float(loss)


def check_finite(losses: Tensor, norms: Tensor, parts: StageParts, epoch: int, lr: float) -> None:
    """Stop a run whose losses or norms of weights are NaN or infinite; the last good checkpoint stays."""
    bad = torch.cat([~torch.isfinite(losses), ~torch.isfinite(norms).all()[None]]).nonzero()
    if len(bad):
        step = min(int(bad[0]) + 1, len(losses))
        what = "loss" if int(bad[0]) < len(losses) else "model's weights"
        raise TailcloudError(
            f"the {what} became NaN or infinite in {parts.name}, epoch {epoch + 1}, step {step} of {len(losses)}; "
            f"the checkpoint before it is kept. The usual cause is a learning rate that is too high: "
            f"start a new run with --set {parts.name}.lr={lr / 10:g}, or a smaller {parts.name}.loss.scale"
        )


def evaluate(checkpointer: Checkpointer, epoch: int) -> dict[str, Any]:
    """The metrics after an epoch, for the log; with an EMA of the weights, those of the averaged weights.

    After the last epoch these are the weights, so what was predicted with them stays known.
    """
    session, parts = checkpointer.session, checkpointer.parts
    with checkpointer.evaluating(), parts.optimizer.averaged():
        metrics = evaluate_epoch(session, parts, checkpointer.progress, epoch)
        metrics |= log_gradients(session, parts, epoch) if session.world.rank0 else {}
    return metrics


def finish_epoch(checkpointer: Checkpointer, line: dict[str, Any], observer: Observer, *, last: bool) -> None:
    """Log a finished epoch, save a checkpoint if one is due, and stop here after SIGTERM.

    ``line`` is the line of the log, without its seconds. After the last epoch the EMA replaces the weights, if there is
    one.
    """
    progress, folder = checkpointer.progress, checkpointer.folder
    line["seconds"] = progress.spent + time.perf_counter() - checkpointer.epoch_started_at
    progress.seconds += line["seconds"]
    progress.begin_epoch(line["epoch"])
    if checkpointer.session.world.rank0:
        folder.append_log(line)
    progress.ended = last
    if last:
        checkpointer.parts.optimizer.use_average()
    stop = checkpointer.epoch_done(last=last)
    observer.epoch_done(line)
    if stop:
        raise terminated(folder)
