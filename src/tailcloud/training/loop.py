"""The loop: one for all stages, readable from top to bottom.

    for each stage:    what may move, which images, which loss
        for each epoch:    steps, evaluation, a line in the log, a checkpoint (and within a long epoch)

Between two checkpoints nothing is remembered outside of them, and all randomness follows from (seed, part, epoch):
a run that is killed and resumed ends bit for bit where it would have ended.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError
from tailcloud.evaluation import Predictions, confusion, summarise
from tailcloud.kernels import CannotFuse
from tailcloud.recipe import Recipe, Stage, completed, differences
from tailcloud.stages.scope import set_modes
from tailcloud.training import stopping
from tailcloud.training.checkpoint import Checkpoint, load_newest
from tailcloud.training.compiled import CannotCompile
from tailcloud.training.devices import make_repeatable, use_threads
from tailcloud.training.distributed import ALONE, World
from tailcloud.training.events import observed
from tailcloud.training.examples import write_examples
from tailcloud.training.executors import Standing
from tailcloud.training.folder import RunFolder
from tailcloud.training.keeping import Keeper, terminated
from tailcloud.training.progress import Progress
from tailcloud.training.result import finish
from tailcloud.training.schedule import learning_rate
from tailcloud.training.session import Session, StageParts, unfused
from tailcloud.training.watch import watch

LOGGED = ("top1", "many", "medium", "few")


class Observer(Protocol):
    """Somebody who watches a run: a progress bar, a test."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins, or goes on after ``done`` epochs."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained, logged and saved."""

    def note(self, text: str) -> None:
        """A sentence that the person at the keyboard should read."""


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
    with stopping.at_once():  # there is nothing to save yet
        session = world.everywhere(partial(Session, recipe, dataset, device, world))
    use_threads(recipe, session.work)
    for remark in session.remarks:
        observer.note(remark)
    progress, checkpoint = resume(session, folder, observer)
    if any(world.any(stopping.asked())):
        raise terminated(folder)
    for name, stage in recipe.stages.items():
        if name in {done["name"] for done in progress.finished}:
            continue
        if name != progress.stage:
            progress.next_stage(name)
        train_stage(session, folder, progress, checkpoint, observer)
        progress.finished.append(conclude(session, progress, stage, observer))
        checkpoint = None
    session.share_faults()
    write_examples(session, folder, progress.finished[-1]["per_class"])
    return finish(session, folder, progress) if world.chief else {}


def train_stage(
    session: Session, folder: RunFolder, progress: Progress, checkpoint: Checkpoint | None, observer: Observer
) -> None:
    """Train the epochs of the current stage that are still to do."""
    name, stage = progress.stage, session.recipe.stages[progress.stage]
    if progress.epoch == progress.step == 0:
        for remark in session.open_stage(name):
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
            with parts.optimizer.averaged():
                line |= evaluate_epoch(session, parts, progress, epoch + 1)
                line |= watch(session, parts, epoch + 1) if session.world.chief else {}
        line["seconds"] = progress.spent + time.perf_counter() - keeper.began
        progress.seconds += line["seconds"]
        progress.begin_epoch(epoch + 1)
        if session.world.chief:
            folder.append_log(line)
        if progress.epoch == stage.epochs:
            parts.optimizer.settle()
        stop = keeper.epoch_ends(last=progress.epoch == stage.epochs)
        observer.epoch_done(line)
        if stop:
            raise terminated(folder)


def ready(session: Session, name: str, observer: Observer) -> StageParts:
    """The parts of a stage, made ready to run. What cannot be compiled runs as PyTorch has it, and the run says so."""
    stage = session.recipe.stages[name]
    parts = session.parts(name, stage)
    set_modes(session.model, stage)
    try:
        parts.executor.prepare()
    except CannotCompile as failure:
        session.executor = "eager"
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


def evaluate_epoch(session: Session, parts: StageParts, progress: Progress, epoch: int) -> dict[str, Any]:
    """Accuracy after an epoch, for the log; remembers the best one, on validation if there is any."""
    counts = session.dataset.profile.counts
    test = summarise(session.predict(session.test, parts.scale), counts)
    measured = {key: test[key] for key in LOGGED}
    if session.val:
        measured["val_top1"] = summarise(session.predict(session.val, parts.scale), counts)["top1"]
    better = progress.note_best(epoch, measured.get("val_top1", test["top1"]), test["top1"], session.best_on)
    if better and session.recipe.selection.pick == "best":
        progress.best_weights = {name: value.clone() for name, value in session.model.state_dict().items()}
    return measured


def conclude(session: Session, progress: Progress, stage: Stage, observer: Observer) -> dict[str, Any]:
    """Close a stage: measure its last epoch in full, and if another one was picked, take and measure that apart."""
    scale, counts = session.loss(stage).scale, session.dataset.profile.counts
    predictions = session.predict(session.test, scale)
    last = summarise(predictions, counts)
    if predictions.unanswered:
        session.overflows.append(overflow(progress.stage, predictions))
        observer.note(session.overflows[-1])
    best = progress.best or {"epoch": 0, "top1": last["top1"], "on": session.best_on}
    result = {
        "name": progress.stage,
        "epochs": stage.epochs,
        **last,
        "confusion": confusion(predictions, session.dataset.classes),
        "best": {key: best[key] for key in ("epoch", "top1", "on")},
        "executor": session.executor,
        "kernels": session.arithmetic["kernels"],
        "seconds": progress.seconds,
    }
    if progress.best_weights:
        session.model.load_state_dict(progress.best_weights)
        picked = summarise(session.predict(session.test, scale), counts)
        result["picked"] = {"epoch": best["epoch"], "on": best["on"], **picked}
    return result


def overflow(stage: str, predictions: Predictions) -> str:
    """What to know about a model that answers with NaN though its loss and weights are numbers."""
    return (
        f"After {stage} the model's outputs are NaN or infinite for {predictions.unanswered:,} of "
        f"{len(predictions.target):,} test images, which count as wrong; a lower {stage}.lr is the usual way out."
    )


def resume(session: Session, folder: RunFolder, observer: Observer) -> tuple[Progress, Checkpoint | None]:
    """Put model and progress where the newest whole checkpoint left them; a new run starts at the beginning."""
    checkpoint, remarks = session.world.from_chief(partial(load_newest, folder.checkpoints))
    for remark in remarks:
        observer.note(remark)
    if checkpoint is None:
        if session.world.chief:
            folder.cut_log(lambda _: False)
        return Progress(), None
    state = dict(checkpoint.state)
    try:
        with session.world.one_voice():
            check_same_recipe(folder, state.pop("recipe"), session.recipe)
        check_same_world(state.pop("environment"), state.pop("fingerprint"), session, observer)
        session.shape_head(state["stage"])
        session.model.load_state_dict(checkpoint.group("model"))
        progress = Progress(**state, best_weights=checkpoint.group("best"))
    except (RuntimeError, TypeError, KeyError):
        raise TailcloudError(
            f"the checkpoint in {folder.checkpoints} belongs to another model than {folder.recipe_file}"
        ) from None
    if session.world.chief:
        cut_log(session, folder, progress, observer)
    return progress, checkpoint


def cut_log(session: Session, folder: RunFolder, progress: Progress, observer: Observer) -> None:
    """Drop what the log says of epochs that will be trained again."""
    order = list(session.recipe.stages)
    reached = (order.index(progress.stage), progress.epoch)
    folder.cut_log(lambda line: (order.index(line["stage"]), line["epoch"]) <= reached)
    done = progress.epoch + sum(stage["epochs"] for stage in progress.finished)
    if len(folder.log()) < done:
        observer.note(f"{folder.log_file} lacks some of the {done} epochs that are done; its curves will have a gap.")


def check_same_recipe(folder: RunFolder, then: dict[str, Any], recipe: Recipe) -> None:
    """A run goes on with the recipe that it was started with."""
    for field, old, new in differences(completed(then), recipe.substance()):
        raise TailcloudError(
            f"{folder.recipe_file} was changed since the last checkpoint: {field} was {old} and is now {new}; "
            "change it back, or start a new run in another folder"
        )


def check_same_world(then: dict[str, Any], fingerprint: str, session: Session, observer: Observer) -> None:
    """Other data or another plane is refused; another device or version is allowed and said: the bits will differ."""
    dataset, plane = session.dataset, session.environment["plane"]
    if then.get("plane", plane) != plane:
        raise TailcloudError(
            f'the images of {dataset.spec} were on the plane "{then["plane"]}" when this run was started, and are on '
            f'"{plane}" now; to go on, set data.plane = "{then["plane"]}" in its recipe.toml'
        )
    if fingerprint != dataset.fingerprint:
        raise TailcloudError(
            f"{dataset.spec} is not the data this run was started on (fingerprint {dataset.fingerprint}, "
            f"then {fingerprint}); restore that data or start a new run"
        )
    if then["device"] == session.device.type == "cpu":
        torch.set_num_threads(then["threads"])  # sums depend on it in their last bits
    if (then.get("executor"), session.executor) == ("eager", "compiled"):
        session.executor = "eager"
        observer.note("This run goes on eagerly, as it was started, though its recipe would have it compiled.")
    now = session.environment
    first = {"plane": plane, "kernels": "plain", "ranks": 1, "accumulate": 1, "sync_batch_norm": False}
    then = {**first, **then}  # as it was before there were others
    for key in sorted(now):
        if now[key] != then.get(key):
            observer.note(
                f"This run was started with {key} {then.get(key)} and goes on with {now[key]}: "
                "the result will be as good, but not bit for bit the same."
            )
