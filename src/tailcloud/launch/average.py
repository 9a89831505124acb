"""``tailcloud.average``: one model of several finished runs, in a run folder of its own."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import torch

import tailcloud
from tailcloud.calibration.priors import normalised
from tailcloud.calibration.run_calibration import calibrate
from tailcloud.classifier import Classifier, cost_of
from tailcloud.data import Dataset, Split
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.placement import place_images
from tailcloud.errors import TailcloudError
from tailcloud.evaluation import confusion
from tailcloud.files import expand_home, refuse_single_path, write_atomically
from tailcloud.launch.command_line import command_line
from tailcloud.launch.evaluation_data import open_evaluation_data
from tailcloud.launch.train import process_state_restored
from tailcloud.reporting import write_report
from tailcloud.runs.examples_file import write_run_examples
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import CalibrationSettings, ModelFile
from tailcloud.runs.result import Result, Scores, write_result
from tailcloud.runs.trained_model import write_trained_model
from tailcloud.serving.ensemble import Member, average_model, read_members
from tailcloud.serving.evaluate import evaluate_model
from tailcloud.serving.load import TrainedClassifier
from tailcloud.training.devices import commit, machine, pick_device
from tailcloud.training.run_examples import choose_examples

MEASURED = (*Scores.model_fields, "confusion", "calibrated", "priors")  # fields of a result


def average(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    device: str = "auto",
) -> Result:
    """Write the mean of the logits of finished runs as one model, and measure it on the test images of the first run.

    ``out`` becomes a run folder for everything that uses a model. The temperature is fitted on the held-out images of
    the runs, if there are any. If the data cannot be opened, nothing is measured or fitted, and a remark of the result
    says so.

    Args:
        runs: run folders that differ in their seed only.
        out: the new run folder.
        root: the folder with the data files; that of the first run by default.
        device: "auto", "cpu", "cuda" or "mps".

    Raises:
        UsageError: the runs differ in classes, network, images or assumed class frequencies.
        TailcloudError: a run is missing, not finished or damaged, or ``out`` is not empty.

    >>> result = tailcloud.average(["runs/seed0", "runs/seed1", "runs/seed2"], "runs/average")  # doctest: +SKIP
    >>> model = tailcloud.load("runs/average")  # doctest: +SKIP
    """
    refuse_single_path("runs", runs)
    folder, place = RunFolder(expand_home(os.fspath(out))), pick_device(device)
    folder.check_free()
    members = read_members([os.fspath(run) for run in runs])
    recipe, command = members[0].folder.recipe_text(), average_command(members, os.fspath(out), root)
    classifier, about = average_model(members)
    remarks, figures, examples = other_data(members), dict[str, Any](), None
    with process_state_restored():
        try:
            dataset = open_test_images(members[0], None if root is None else os.fspath(root))
        except (TailcloudError, OSError) as error:
            remarks.append(f"The average is neither measured nor calibrated: {error}")
        else:
            held_out = None if remarks else dataset.val  # a run of other data may be trained on these
            about, images = with_temperature(classifier, about, held_out, place)
            figures, predictions = evaluate_model(folder.path, TrainedClassifier(classifier, about), dataset, place)
            figures.get("calibrated", {})["images"] = images
            figures["confusion"] = confusion(predictions, dataset.classes)
            if members[0].folder.recipe().logging.examples:
                examples = choose_examples(dataset, predictions, figures["per_class"])
    result = make_result(members, classifier.cpu(), about, figures, remarks, command=command, device=place)
    with folder.locked():
        folder.check_free()
        write_trained_model(folder, classifier, about)
        write_atomically(folder.log_file, "")  # no epochs
        if examples:
            write_run_examples(folder.examples_file, examples, len(about.class_names))
        write_result(folder.result_file, result)
        folder.write_recipe(recipe, command)  # after the result, without which it would be a run to resume
        write_report([folder.path])
    return result


def average_command(members: Sequence[Member], out: str, root: str | os.PathLike[str] | None) -> str:
    """The command that repeats the average."""
    options = {"--out": out, "--root": None if root is None else os.fspath(root)}
    return command_line("average", [member.run for member in members], options)


def other_data(members: Sequence[Member]) -> list[str]:
    """A remark for each run that was trained on other data than the first, whose test images may be among them."""
    first, own = members[0].path, members[0].result.dataset
    others = [
        (member.path, data) for member in members if (data := member.result.dataset).fingerprint != own.fingerprint
    ]
    return [
        f"{path} was trained on other data ({data.spec}, fingerprint {data.fingerprint}) than {first} ({own.spec}, "
        f"{own.fingerprint}): if they contain test images of {first}, the figures of the average are too high. No "
        "temperature is fitted."
        for path, data in others
    ]


def open_test_images(member: Member, root: str | None) -> Dataset:
    """The data of a run, on whose test images the average is measured."""
    model = TrainedClassifier(member.classifier, member.model_file)
    return open_evaluation_data(member.folder, member.folder.recipe(), model, root=root).dataset


def with_temperature(
    classifier: Classifier, about: ModelFile, held_out: Split | None, device: torch.device
) -> tuple[ModelFile, int | None]:
    """The ``model.json`` with a temperature that is fitted on held-out images, and their number; 0 if too few."""
    if held_out is None or about.prior is None:
        return about, 0
    images, transform = place_images(held_out, device), Normalise(about.transform.mean, about.transform.std, device)
    scale, prior = about.calibration.scale, normalised(about.prior)
    fitted = calibrate(classifier.to(device), images, transform, scale, prior)
    settings = {"scale": scale, "temperature": fitted.temperature, "fitted_on": fitted.fitted_on}
    return about.model_copy(update={"calibration": CalibrationSettings.create(settings)}), fitted.images


def make_result(
    members: Sequence[Member],
    classifier: Classifier,
    about: ModelFile,
    figures: Mapping[str, Any],
    remarks: Sequence[str],
    *,
    command: str,
    device: torch.device,
) -> Result:
    """The record of an average: what was measured, data and protocol of the first run, and the members."""
    first, methods = members[0].result, dict.fromkeys(member.result.method for member in members)
    height, width, channels = about.image_shape
    price = cost_of(classifier, channels, height, width)
    seconds = [member.result.seconds for member in members]
    return Result.create(
        {
            "method": f"average of {len(members)} runs of {', '.join(methods)}",
            "top1": {"last": figures.get("top1")},
            **{key: figures[key] for key in MEASURED if key in figures},
            "dataset": first.dataset,
            "protocol": first.protocol.content() | {"seed": None, "selection": selection_of(members)},
            "model": {
                "backbone": about.architecture.backbone,
                "head": about.architecture.head,
                "width": about.architecture.width,
                "parameters": price.parameters,
                "flops": price.flops,
                **({"weights": about.weights} if about.weights else {}),
                "members": [member_record(member) for member in members],
            },
            "recipe": first.recipe,
            "remarks": [*remarks, *figures.get("remarks", [])],
            "seconds": sum(each for each in seconds if each) if all(seconds) else None,
            "device": device.type,
            "version": tailcloud.__version__,
            "machine": machine(device),
            "commit": commit(),
            "command": command,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )


def selection_of(members: Sequence[Member]) -> str:
    """How the members' weights were selected: "last", or every way there is."""
    return " and ".join(dict.fromkeys(member.result.protocol.selection for member in members))


def member_record(member: Member) -> dict[str, Any]:
    """A run in the record of its average."""
    result = member.result
    top1 = result.picked.top1 if result.picked else result.top1.last
    return {"run": member.run, "sha256": member.sha256, "seed": result.protocol.seed, "top1": top1}
