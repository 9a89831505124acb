"""What a stage has learned: in a few figures after an epoch, in full when it is done."""

from typing import Any

from tailcloud.evaluation import Predictions, confusion, summarise
from tailcloud.recipe import Stage
from tailcloud.runs.observer import Observer
from tailcloud.runs.progress import Progress
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts

LOGGED = ("top1", "many", "medium", "few")


def evaluate_epoch(session: Session, parts: StageParts, progress: Progress, epoch: int) -> dict[str, Any]:
    """Accuracy after an epoch, for the log; remembers the best one, on validation if there is any."""
    counts = session.dataset.profile.counts
    test = summarise(session.predict(session.images.test, parts.scale), counts)
    measured = {key: test[key] for key in LOGGED}
    if session.images.val:
        measured["val_top1"] = summarise(session.predict(session.images.val, parts.scale), counts)["top1"]
    better = progress.note_best(epoch, measured.get("val_top1", test["top1"]), test["top1"], session.best_on)
    if better and session.recipe.selection.pick == "best":
        progress.best_weights = {name: value.clone() for name, value in session.model.state_dict().items()}
    return measured


def conclude(session: Session, progress: Progress, stage: Stage, observer: Observer) -> dict[str, Any]:
    """Close a stage: measure its last epoch in full, and if another one was picked, take and measure that apart."""
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
    """What to know about a model that answers with NaN though its loss and weights are numbers."""
    return (
        f"After {stage} the model's outputs are NaN or infinite for {predictions.non_finite:,} of "
        f"{len(predictions.target):,} test images, which count as wrong; a lower {stage}.lr is the usual way out."
    )
