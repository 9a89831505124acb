"""The end of a run: its model and its result are collected from the session and written."""

from datetime import UTC, datetime
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

import tailcloud
from tailcloud.calibration.deployment_metrics import measure_deployment
from tailcloud.calibration.run_calibration import calibrate_run
from tailcloud.calibration.temperature import LogitCalibration
from tailcloud.data import Dataset
from tailcloud.evaluation.paired_difference import FIGURES, group_weights, image_weights, paired_difference
from tailcloud.recipe import Recipe
from tailcloud.runs.checkpoint import TrainingProgress
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile
from tailcloud.runs.result import Result, write_result
from tailcloud.runs.trained_model import write_trained_model
from tailcloud.training.devices import commit, machine
from tailcloud.training.session import Session
from tailcloud.training.stage_metrics import counted_epochs, unpack_hits

ONLY_OF_STAGES = ("name", "epochs", "top1", "best", "executor", "kernels", "seconds", "hits")
NOT_OF_STAGES = ("confusion", "hits")


def finish_run(session: Session, folder: RunFolder, progress: TrainingProgress, kept: dict[str, Any] | None) -> Result:
    """Write the model and then the result: a run with a ``result.json`` is finished.

    ``kept`` is ``kept_stage`` of the result, if stages were compared.
    """
    session.drop_training_parts()
    counts, recipe = session.dataset.profile.counts.tolist(), session.kept_recipe
    calibration = calibrate_run(session.plain_network, session.inputs.val, session.transform, recipe, counts)
    write_trained_model(folder, session.model, describe_model(session, calibration))
    result = make_result(session, folder, progress, calibration, kept)
    write_result(folder.result_file, result)
    return result


def describe_model(session: Session, calibration: LogitCalibration) -> ModelFile:
    """The model of a run, as ``model.json`` has it."""
    dataset = session.dataset
    return ModelFile.create(
        {
            "architecture": session.architecture,
            "class_names": list(dataset.class_names),
            "counts": dataset.profile.counts.tolist(),
            **({"class_sizes": list(dataset.class_sizes)} if dataset.class_sizes else {}),
            "transform": {
                "size": dataset.shape[:2],
                "mean": list(dataset.mean),
                "std": list(dataset.std),
                "fit": dataset.fit,
                "keep": dataset.keep,
            },
            "calibration": {
                "scale": calibration.scale,
                "temperature": calibration.temperature,
                "fitted_on": calibration.fitted_on,
            },
            "prior": calibration.prior.tolist(),
            **weights_record(session),
        }
    )


def weights_record(session: Session) -> dict[str, Any]:
    """``weights``, the pretrained weights that the run started from; nothing if it started from scratch."""
    return {"weights": session.pretrained.record()} if session.pretrained else {}


def teachers_record(recipe: Recipe) -> dict[str, Any]:
    """``teachers``, the runs that this one was distilled from; nothing if there are none."""
    if not recipe.distill:
        return {}
    teachers = zip_longest(recipe.distill.teachers, recipe.distill.sha256)
    return {"teachers": [{"run": run, **({"sha256": digest} if digest else {})} for run, digest in teachers]}


def kept_figures(session: Session, progress: TrainingProgress) -> dict[str, Any]:
    """The figures of the stage whose model is kept."""
    name = list(session.kept_recipe.stages)[-1]
    return next(stage for stage in progress.finished if stage["name"] == name)


def stage_records(session: Session, progress: TrainingProgress) -> list[dict[str, Any]]:
    """``stages``: the figures of each, and what it changed on the test images since the stage before."""
    records = [{key: stage[key] for key in stage if key not in NOT_OF_STAGES} for stage in progress.finished]
    images, counts = session.dataset.test.labels, session.dataset.profile.counts
    weights = {figure: image_weights(images, counts, name) for name, figure in FIGURES.items() if name != "few"}
    groups = group_weights(images, counts)
    for record, (before, after) in zip(records[1:], pairwise(progress.finished), strict=True):
        if "hits" in before:  # a checkpoint of an older version has none
            old, new = (unpack_hits(stage["hits"]["test"], len(images)) for stage in (before, after))
            changes, of_groups = (
                {name: vars(paired_difference(images, old, new, each)) for name, each in kind.items()}
                for kind in (weights, groups)
            )
            record["change"] = {"since": before["name"], **changes, "groups": of_groups}
    return records


def make_result(
    session: Session,
    folder: RunFolder,
    progress: TrainingProgress,
    calibration: LogitCalibration,
    kept: dict[str, Any] | None,
) -> Result:
    """The record of a run: the figures of the last epoch of the kept stage first, then everything they depend on.

    If another epoch was picked, its weights are kept, and its figures are under ``picked``.
    """
    recipe, dataset, final, cost = session.recipe, session.dataset, kept_figures(session, progress), session.cost
    return Result.create(
        {
            "method": recipe.method,
            "top1": {
                "last": final["top1"],
                "best": final["best"]["top1"],
                "best_on": final["best"]["on"],
                "best_epoch": {"stage": final["name"], "epoch": final["best"]["epoch"]},
                **counted_epochs(final["best"].get("evaluated_epochs")),
            },
            **{key: value for key, value in final.items() if key not in ONLY_OF_STAGES},
            "stages": stage_records(session, progress),
            **({"kept_stage": kept} if kept else {}),
            "dataset": describe_data(dataset),
            "protocol": {
                "seed": recipe.seed,
                "selection": "last" if recipe.selection.pick == "last" else f"best on {session.best_on}",
                "split": recipe.selection.split,
                "every": recipe.selection.every,
            },
            "model": {
                "backbone": recipe.model.backbone,
                "head": session.architecture.head,
                "width": recipe.model.width,
                "parameters": cost.parameters,
                "flops": cost.flops,
                **weights_record(session),
                **teachers_record(recipe),
            },
            "recipe": recipe.substance(),
            "remarks": [
                *dataset.count_remarks,
                *dataset.remarks,
                *session.images.unreadable_remarks,
                *session.findings,
                *progress.changes,
                *([kept["reason"]] if kept else []),
            ],
            "seconds": sum(stage["seconds"] for stage in progress.finished),
            "device": session.device.type,
            "version": tailcloud.__version__,
            "machine": {**machine(session.device), **session.environment},
            "commit": commit(),
            "command": folder.command(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **deployment_figures(session, calibration),
        }
    )


def deployment_figures(session: Session, calibration: LogitCalibration) -> dict[str, Any]:
    """``calibrated`` and ``priors``: the kept weights on the test split, by PyTorch's own kernels, as in use."""
    session.model.eval()
    batches = session.inputs.test.in_order(session.transform)
    counts, frequencies = session.dataset.profile.counts.tolist(), session.dataset.frequencies
    return measure_deployment(session.plain_network, batches, calibration, counts, frequencies=frequencies)


def describe_data(dataset: Dataset) -> dict[str, Any]:
    """The data set of a run, as ``result.json`` has it."""
    return {
        "spec": dataset.spec,
        "fingerprint": dataset.fingerprint,
        "counts": dataset.profile.counts.tolist(),
        **({"class_sizes": list(dataset.class_sizes)} if dataset.class_sizes else {}),
        "test_counts": np.bincount(dataset.test.labels, minlength=dataset.classes).tolist(),
        "class_names": list(dataset.class_names),
        "images": {
            "train": len(dataset.train),
            "val": len(dataset.val) if dataset.val else 0,
            "test": len(dataset.test),
        },
        "shape": list(dataset.shape),
        "fit": dataset.fit,
        "keep": dataset.keep,
        "native_side": dataset.native_side,
    }
