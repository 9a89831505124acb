"""One model of several trained runs: the mean of their logits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from torch import nn

from tailcloud.backbones import Ensemble
from tailcloud.backbones.ensemble import MOST_NETWORKS, ensemble_of, ensemble_parts
from tailcloud.calibration.priors import normalised
from tailcloud.classifier import Classifier, meta_classifier
from tailcloud.errors import UsageError
from tailcloud.files import expand_home
from tailcloud.heads import ExpertHeads, Head
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_comparison import class_difference, mean_prior, normalisation_difference, same_prior
from tailcloud.runs.model_file import CalibrationSettings, ModelFile
from tailcloud.runs.result import Result
from tailcloud.runs.trained_model import read_trained_model, weights_digest

WAY_OUT = "average runs that differ in their seed only"


@dataclass(frozen=True)
class Member:
    """A finished run of which an average is made; ``run`` is its folder as it was given."""

    run: str
    folder: RunFolder
    classifier: Classifier
    model_file: ModelFile
    result: Result
    sha256: str

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path


def read_members(runs: Sequence[str | Path]) -> list[Member]:
    """Finished runs whose logits can be averaged.

    Raises:
        TailcloudError: a run is missing, not finished or damaged.
        UsageError: there are fewer than two runs, one is given twice, or they differ in more than their weights.
    """
    if not 2 <= len(runs) <= MOST_NETWORKS:
        raise UsageError(f"an average needs 2 to {MOST_NETWORKS} runs, not {len(runs)}; give that many run folders")
    members = [_read_member(run) for run in runs]
    for one, other in combinations(members, 2):
        if one.sha256 == other.sha256:
            which = f"{one.path} is given twice" if one.path == other.path else f"{other.path} has those of {one.path}"
            raise UsageError(f"an average needs different weights, and {which}; give every run once")
    for other in members[1:]:
        check_alike(members[0], other)
    return members


def _read_member(run: str | Path) -> Member:
    folder = RunFolder(expand_home(str(run)))
    classifier, model_file = read_trained_model(folder)
    if ensemble_parts(model_file.architecture.backbone)[1] > 1:
        raise UsageError(f"{folder.path} is an average already; give the runs that it was made of, and the others")
    return Member(str(run), folder, classifier, model_file, folder.result(), weights_digest(folder))


def check_alike(first: Member, other: Member) -> None:
    """Refuse a run that differs from the first in classes, network, images or assumed class frequencies."""
    ours, theirs = first.model_file, other.model_file
    if differs := class_difference(theirs.class_names, ours.class_names, str(first.path)):
        raise UsageError(f"{other.path} {differs}; {WAY_OUT}")
    for (name, own), its in zip(_settings(ours).items(), _settings(theirs).values(), strict=True):
        if own != its:
            raise UsageError(f"{other.path} has {name} {its}, and {first.path} has {own}; {WAY_OUT}")
    there, here = ((file.transform.mean, file.transform.std) for file in (theirs, ours))
    if differs := normalisation_difference(there, here, str(first.path)):
        raise UsageError(f"{other.path} {differs}; {WAY_OUT}")
    if ours.prior and theirs.prior and not same_prior(normalised(ours.prior), normalised(theirs.prior)):
        raise UsageError(
            f"{other.path} and {first.path} assume different class frequencies (prior in their model.json), as other "
            f"losses, samplers or class counts do; {WAY_OUT}"
        )


def _settings(file: ModelFile) -> dict[str, str]:
    """What members must have in common, as text."""
    built, read, weights = file.architecture, file.transform, file.weights
    return {
        "the backbone": built.backbone,
        "the head": built.head,
        "the width": f"{built.width:g}",
        "the adapter": f"{built.adapter} of size {built.adapter_size}" if built.adapter != "none" else "none",
        "images (height × width × channels) of": " × ".join(map(str, file.image_shape)),
        "data.fit": read.fit,
        "a kept share of images of": f"{read.keep:g}",
        "outputs with the scale": f"{file.calibration.scale:g}",
        "the pretrained weights": f"{weights.name} ({weights.sha256[:12]}…)" if weights else "none",
    }


def average_model(members: Sequence[Member]) -> tuple[Classifier, ModelFile]:
    """The mean of the members' logits as one model, on the CPU, and its ``model.json``.

    It has the modules of its members. The temperature is 1: those of the members were fitted on other logits.
    """
    first = members[0].model_file
    architecture = replace(first.architecture, backbone=ensemble_of(first.architecture.backbone, len(members)))
    model, heads = meta_classifier(architecture), [head for member in members for head in _heads(member.classifier)]
    assert isinstance(model.backbone, Ensemble)
    assert isinstance(model.head, ExpertHeads)
    model.backbone.networks = nn.ModuleList([member.classifier.backbone for member in members])
    model.head.experts = nn.ModuleList(heads)
    prior = mean_prior([member.model_file for member in members])
    changes = {
        "architecture": architecture,
        "calibration": CalibrationSettings(scale=first.calibration.scale),
        "prior": None if prior is None else prior.tolist(),
    }
    return model.eval(), first.model_copy(update=changes)


def _heads(classifier: Classifier) -> list[Head | nn.Module]:
    """The heads of a model: one, or one for each of its experts."""
    return list(classifier.head.experts) if isinstance(classifier.head, ExpertHeads) else [classifier.head]
