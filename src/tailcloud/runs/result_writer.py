"""What a finished run leaves behind: the model, and a result that carries its protocol."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
from safetensors.torch import save

import tailcloud
from tailcloud.calibration.deployment_metrics import measure_deployment
from tailcloud.calibration.run_calibration import calibrate_run
from tailcloud.calibration.temperature import LogitCalibration
from tailcloud.data import Dataset
from tailcloud.files import FORMAT, write_atomically, write_json
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.progress import Progress
from tailcloud.training.devices import commit, machine
from tailcloud.training.session import Session

ABOUT_STAGE = ("name", "epochs", "best", "executor", "kernels", "seconds")


def finish(session: Session, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """Write the model and the result; the result's presence says that the run is done."""
    counts = session.dataset.profile.counts.tolist()
    reading = calibrate_run(session.model, session.images.val, session.transform, session.recipe, counts)
    write_model(session, folder, reading)
    result = make_result(session, folder, progress) | deployed(session, reading)
    folder.write_result(result)
    return result


def write_model(session: Session, folder: RunFolder, reading: LogitCalibration) -> None:
    """Weights, and beside them what is needed to use them."""
    weights = {name: value.cpu().contiguous() for name, value in session.model.state_dict().items()}
    write_atomically(folder.weights_file, save(weights, {"format": str(FORMAT)}))
    dataset = session.dataset
    write_json(
        folder.model_file,
        {
            "architecture": asdict(session.architecture),
            "class_names": list(dataset.class_names),
            "counts": dataset.profile.counts.tolist(),
            "transform": {
                "size": list(dataset.shape[:2]),
                "mean": list(dataset.mean),
                "std": list(dataset.std),
                "fit": dataset.fit,
                "keep": dataset.keep,
            },
            "calibration": {
                "scale": reading.scale,
                "temperature": reading.temperature,
                "fitted_on": reading.fitted_on,
            },
            "prior": reading.prior.tolist(),
        },
    )


def deployed(session: Session, reading: LogitCalibration) -> dict[str, Any]:
    """``calibrated`` and ``priors``: the weights that are kept, on the test part, computed as they will be used."""
    session.model.eval()
    batches = session.images.test.in_order(session.transform)
    return measure_deployment(session.model, batches, reading, session.dataset.profile.counts.tolist())


def make_result(session: Session, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """The record of a run: the figures of its very last epoch first, then everything they hang on.

    When another epoch was picked, its figures stand apart under ``picked``; those are the weights that are kept.
    """
    recipe, dataset, final, cost = session.recipe, session.dataset, progress.finished[-1], session.cost
    return {
        "method": recipe.method,
        "top1": {
            "last": final["top1"],
            "best": final["best"]["top1"],
            "best_on": final["best"]["on"],
            "best_epoch": {"stage": final["name"], "epoch": final["best"]["epoch"]},
        },
        **{key: value for key, value in final.items() if key not in {"top1", *ABOUT_STAGE}},
        "stages": [{key: stage[key] for key in stage if key != "confusion"} for stage in progress.finished],
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
        },
        "recipe": recipe.substance(),
        "remarks": [
            *dataset.profile.remarks(),
            *dataset.remarks,
            *session.images.faults,
            *session.overflows,
            *progress.changes,
        ],
        "seconds": sum(stage["seconds"] for stage in progress.finished),
        "device": session.device.type,
        "version": tailcloud.__version__,
        "machine": {**machine(session.device), **session.environment},
        "commit": commit(),
        "command": folder.command(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_data(dataset: Dataset) -> dict[str, Any]:
    """What a run was trained and measured on."""
    return {
        "spec": dataset.spec,
        "fingerprint": dataset.fingerprint,
        "counts": dataset.profile.counts.tolist(),
        "test_counts": np.bincount(dataset.test.labels, minlength=dataset.classes).tolist(),
        "class_names": list(dataset.class_names),
        "images": {
            "train": len(dataset.train),
            "val": len(dataset.val) if dataset.val else 0,
            "test": len(dataset.test),
        },
        "shape": list(dataset.shape),
    }
