"""Resume a run from its newest complete checkpoint, if its recipe and data are unchanged."""

from functools import partial
from typing import Any

import torch

from tailcloud.errors import TailcloudError
from tailcloud.recipe import Recipe, completed, differences
from tailcloud.runs.checkpoint import Checkpoint, TrainingProgress, load_latest_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.training.session import Session
from tailcloud.training.stages.start import use_new_head


def resume(session: Session, folder: RunFolder, observer: Observer) -> tuple[TrainingProgress, Checkpoint | None]:
    """Load model and progress from the newest complete checkpoint; a new run starts from the beginning."""
    checkpoint, remarks = session.world.from_rank0(partial(load_latest_checkpoint, folder.checkpoints))
    for remark in remarks:
        observer.note(remark)
    if checkpoint is None:
        if session.world.rank0:
            folder.truncate_log(lambda _: False)
        return TrainingProgress(), None
    state = dict(checkpoint.state)
    try:
        with session.world.rank0_errors():
            check_same_recipe(folder, state.pop("recipe"), session.recipe)
        check_same_environment(state.pop("environment"), state.pop("fingerprint"), session, observer)
        use_new_head(session, state["stage"])
        session.model.load_state_dict(checkpoint.group("model"))
        progress = TrainingProgress(**{"evaluated": None, **state}, best_weights=checkpoint.group("best"))
    except (RuntimeError, TypeError, KeyError):
        raise TailcloudError(
            f"the checkpoint in {folder.checkpoints} belongs to another model than {folder.recipe_file}"
        ) from None
    if session.world.rank0:
        cut_log(session, folder, progress, observer)
    return progress, checkpoint


def cut_log(session: Session, folder: RunFolder, progress: TrainingProgress, observer: Observer) -> None:
    """Remove from the log the epochs that will be trained again."""
    order = list(session.recipe.stages)
    reached = (order.index(progress.stage), progress.epoch)
    folder.truncate_log(lambda line: (order.index(line["stage"]), line["epoch"]) <= reached)
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
    now = session.environment
    defaults = {"loader": loader, "kernels": "plain", "ranks": 1, "accumulate": 1, "sync_batch_norm": False}
    then = {**defaults, **then}  # for checkpoints of older versions
    for key in sorted(now):
        if now[key] != then.get(key):
            observer.note(
                f"This run was started with {key} {then.get(key)} and continues with {now[key]}: "
                "the result will be as good, but not bit-identical."
            )
