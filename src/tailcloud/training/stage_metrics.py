"""The metrics of a stage: a few after each evaluated epoch, all of them at its end."""

from typing import Any

from tailcloud.evaluation import Predictions, confusion, summarise
from tailcloud.recipe import Stage
from tailcloud.runs.observer import Observer
from tailcloud.runs.progress import TrainingProgress
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

LOGGED = ("top1", "many", "medium", "few")


def evaluate_epoch(session: Session, parts: StageParts, progress: TrainingProgress, epoch: int) -> dict[str, Any]:
    """Accuracy after an epoch, for the log; remembers the best epoch, chosen on validation if there is any."""
    counts = session.dataset.profile.counts
    test = summarise(session.predict(session.images.test, parts.scale), counts)
    measured = {key: test[key] for key in LOGGED}
    if session.images.val:
        measured["val_top1"] = summarise(session.predict(session.images.val, parts.scale), counts)["top1"]
    better = progress.note_best(epoch, measured.get("val_top1", test["top1"]), test["top1"], session.best_on)
    if better and session.recipe.selection.pick == "best":
        progress.best_weights = {name: value.clone() for name, value in session.model.state_dict().items()}
    return measured


def finish_stage(session: Session, progress: TrainingProgress, stage: Stage, observer: Observer) -> dict[str, Any]:
    """All metrics of the last epoch. If another epoch was picked, load its weights and add its metrics as well."""
    scale, counts = session.loss(stage).scale, session.dataset.profile.counts
    predictions = session.predict(session.images.test, scale)
    last = summarise(predictions, counts)
    if predictions.non_finite:
        session.overflows.append(overflow(progress.stage, predictions))
        observer.note(session.overflows[-1])
    best = progress.best or {"epoch": 0, "top1": last["top1"], "on": session.best_on}
    result = {
        "name": progress.stage,
        "epochs": stage.epochs,
        **last,
        "confusion": confusion(predictions, session.dataset.classes),
        "best": {key: best[key] for key in ("epoch", "top1", "on")},
        "executor": session.engine.executor,
        "kernels": session.engine.kernels,
        "seconds": progress.seconds,
    }
    if progress.best_weights:
        session.model.load_state_dict(progress.best_weights)
        picked = summarise(session.predict(session.images.test, scale), counts)
        result["picked"] = {"epoch": best["epoch"], "on": best["on"], **picked}
    return result


def overflow(stage: str, predictions: Predictions) -> str:
    """The remark on a model whose outputs are NaN or infinite though its loss and weights are finite."""
    return (
        f"After {stage} the model's outputs are NaN or infinite for {predictions.non_finite:,} of "
        f"{len(predictions.target):,} test images, which count as wrong; a lower {stage}.lr usually helps."
    )
