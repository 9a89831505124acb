"""Resume a run from its newest complete checkpoint, if its recipe and data are unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from tailcloud.errors import TailcloudError
from tailcloud.recipe import Recipe, completed, differences
from tailcloud.runs.checkpoint import Checkpoint, TrainingProgress, load_latest_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import StageResult
from tailcloud.training.session import Session
from tailcloud.training.stages.start import use_new_head

BEST_EPOCH: dict[str, Any] = {"epoch": int, "top1": int | float, "on": str, "by": int | float}


def resume(session: Session, folder: RunFolder, observer: Observer) -> tuple[TrainingProgress, Checkpoint | None]:
    """Load model and progress from the newest complete checkpoint; a new run starts from the beginning."""
    checkpoint, remarks = session.world.from_rank0(partial(load_latest_checkpoint, folder.checkpoints))
    for remark in remarks:
        observer.note(remark)
    if checkpoint is None:
        if session.world.rank0:
            folder.truncate_log(lambda _: False)
        return TrainingProgress(), None
    with checkpoint_errors(folder):
        state = dict(checkpoint.state)
        with session.world.rank0_errors():
            check_same_recipe(folder, state.pop("recipe"), session.recipe)
        check_same_environment(state.pop("environment"), state.pop("fingerprint"), session, observer)
        progress = TrainingProgress(**{"evaluated": None, **state}, best_weights=checkpoint.group("best"))
        check_progress(progress, session.recipe)
        use_new_head(session, progress.stage)
        session.load_weights(checkpoint.group("model"))
    if session.world.rank0:
        cut_log(session, folder, progress, observer)
    return progress, checkpoint


@contextmanager
def checkpoint_errors(folder: RunFolder) -> Iterator[None]:
    """Around the use of a checkpoint: whatever does not fit the run is one sentence. The file may be forged."""
    try:
        yield
    except TailcloudError:
        raise
    except (RuntimeError, TypeError, KeyError, ValueError, AttributeError):
        raise TailcloudError(
            f"the checkpoint in {folder.checkpoints} belongs to another model than {folder.recipe_file}, or is damaged"
        ) from None


def check_progress(progress: TrainingProgress, recipe: Recipe) -> None:
    """Refuse progress that no run of this recipe can have.

    Raises:
        ValueError: a figure is missing or has another type, or a stage or an epoch is not in the recipe.
    """
    order, done = list(recipe.stages), [stage["name"] for stage in progress.finished]
    for stage in progress.finished:
        StageResult.model_validate(stage)
    numbers = (progress.epoch, progress.step, progress.seconds, progress.spent)
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError("a number is missing or negative")
    if done != order[: len(done)] or order.index(progress.stage) not in {len(done) - 1, len(done)}:
        raise ValueError("its stages are in another order")
    if not isinstance(progress.epoch, int) or progress.epoch > recipe.stages[progress.stage].epochs:
        raise ValueError("it has more epochs than the recipe")
    if progress.best is not None and not all(isinstance(progress.best[key], kind) for key, kind in BEST_EPOCH.items()):
        raise ValueError("its best epoch is none")
    if not isinstance(progress.changes, list) or not all(isinstance(text, str) for text in progress.changes):
        raise ValueError("its remarks are not text")
    if not isinstance(progress.evaluated, int | None) or not isinstance(progress.ended, bool):
        raise ValueError("it does not say what was evaluated")
    start, position, end = progress.early_end or (0, 0.0, 0)
    if not isinstance(start, int) or not isinstance(position, int | float) or not isinstance(end, int):
        raise ValueError("it ends at no step")


def cut_log(session: Session, folder: RunFolder, progress: TrainingProgress, observer: Observer) -> None:
    """Remove from the log the epochs that will be trained again."""
    order = list(session.recipe.stages)
    reached = (order.index(progress.stage), progress.epoch)
    folder.truncate_log(lambda line: line["stage"] in order and (order.index(line["stage"]), line["epoch"]) <= reached)
    done = progress.epoch + sum(stage["epochs"] for stage in progress.finished)
    if len(folder.log()) < done:
        observer.note(f"{folder.log_file} lacks some of the {done} finished epochs; its curves will have a gap.")


def check_same_recipe(folder: RunFolder, then: dict[str, Any], recipe: Recipe) -> None:
    """Refuse a recipe other than the one that the run was started with."""
    for field, old, new in differences(completed(then), recipe.substance()):
        raise TailcloudError(
            f"{folder.recipe_file} changed since the last checkpoint: {field} was {old} and is now {new}; "
            "change it back, or start a new run in another folder"
        )


def check_same_environment(then: dict[str, Any], fingerprint: str, session: Session, observer: Observer) -> None:
    """Refuse other data or another loader. Another device or version is allowed, with a note: the bits will differ."""
    dataset, loader = session.dataset, session.environment["loader"]
    if then.get("loader", loader) != loader:
        raise TailcloudError(
            f'this run was started with the loader "{then["loader"]}" for {dataset.spec}, which is now "{loader}"; '
            f'to continue, set data.loader = "{then["loader"]}" in its recipe.toml'
        )
    if fingerprint != dataset.fingerprint:
        raise TailcloudError(
            f"{dataset.spec} is not the data this run was started on (fingerprint {dataset.fingerprint}, "
            f"then {fingerprint}); restore that data or start a new run"
        )
    if then["device"] == session.device.type == "cpu":
        torch.set_num_threads(then["threads"])  # sums depend on it in their last bits
    if (then.get("executor"), session.engine.executor) == ("eager", "compiled"):
        session.engine.executor = "eager"
        observer.note("This run continues with eager steps, as it was started; a new run would be compiled.")
    if (then.get("kernels", "plain"), session.kernels, session.recipe.engine.kernels) == ("plain", "fused", "auto"):
        session.use_plain_kernels()
        observer.note("This run continues with PyTorch's kernels, as it was started; a new run would use fused ones.")
    now = session.environment
    defaults = {"loader": loader, "kernels": "plain", "ranks": 1, "accumulate": 1, "sync_batch_norm": False}
    then = {**defaults, **then}  # for checkpoints of older versions
    for key in sorted(now):
        if now[key] != then.get(key):
            observer.note(
                f"This run was started with {key} {then.get(key)} and continues with {now[key]}: "
                "the result will be as good, but not bit-identical."
            )
