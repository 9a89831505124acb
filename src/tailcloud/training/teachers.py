"""The teachers of a run: trained runs from whose mean logits it also learns (``[distill]`` in a recipe)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from tailcloud.calibration.priors import Prior
from tailcloud.classifier import Classifier
from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import expand_home
from tailcloud.kernels import CannotFuse, FusedNetwork, obstacle
from tailcloud.recipe.schema import Distill
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_comparison import class_difference, mean_prior, normalisation_difference, same_prior
from tailcloud.runs.model_file import ModelFile
from tailcloud.runs.trained_model import read_description, read_trained_model, weights_digest


class Teachers(nn.Module):
    """The mean logits [batch, classes] of trained models for normalised images; always in evaluation mode.

    ``remarks`` say what a user should know about them. ``prior`` is the class prior that the mean logits imply: the
    normalised geometric mean of the models' priors. It is None if a model does not know its own.
    """

    def __init__(
        self, models: Sequence[Classifier], scales: Sequence[float], prior: Prior | None, remarks: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.models, self.scales = nn.ModuleList(models), tuple(scales)
        self.prior, self.remarks = prior, list(remarks)
        self.networks: list[Classifier | FusedNetwork] = list(models)  # what computes each model
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "Teachers":  # noqa: ARG002
        """Stay in evaluation mode: a teacher does not change, its batch norm included."""
        return super().train(False)

    def use_fused_kernels(self, height: int, width: int) -> None:
        """Compute the models by fused kernels, for images of that size; those for which there are none, as before."""
        self.networks = [_fused(model, height, width) or model for model in self.classifiers]

    def use_plain_kernels(self) -> None:
        """Compute all models by PyTorch's kernels."""
        self.networks = [*self.classifiers]

    def slow_teachers(self, height: int, width: int) -> dict[int, str]:
        """The numbers of the models for which there are no fused kernels, and why not."""
        reasons = [obstacle(model, height, width) for model in self.classifiers]
        return {number: reason for number, reason in enumerate(reasons) if reason}

    @property
    def classifiers(self) -> list[Classifier]:
        """The models."""
        return [model for model in self.models if isinstance(model, Classifier)]

    def forward(self, images: Tensor) -> Tensor:
        """Mean logits, in float32."""
        logits = [scale * network(images).float() for network, scale in zip(self.networks, self.scales, strict=True)]
        return torch.stack(logits).mean(dim=0)


def _fused(model: Classifier, height: int, width: int) -> FusedNetwork | None:
    """A model in fused kernels; None if there are none for it, or they do not compile."""
    if obstacle(model, height, width):
        return None
    network = FusedNetwork(model, height, width)
    try:
        network.backbone.compile()
    except CannotFuse:
        return None
    return network


def load_teachers(distill: Distill, dataset: Dataset) -> Teachers:
    """The teachers of a recipe on the CPU, after all checks.

    Raises:
        TailcloudError: a run is missing, not finished, damaged or changed.
        UsageError: its classes, image size or normalisation are not those of the data set.
    """
    check_digests(distill)
    folders = teacher_folders(distill)
    models, files = zip(*(read_trained_model(folder) for folder in folders), strict=True)
    for folder, model_file in zip(folders, files, strict=True):
        check_teacher(folder.path, model_file, dataset)
    remarks = [remark for folder in folders for remark in data_remarks(folder, dataset)]
    return Teachers(models, [file.calibration.scale for file in files], mean_prior(files), remarks)


def teacher_folders(distill: Distill) -> list[RunFolder]:
    """The run folders of the teachers."""
    return [RunFolder(expand_home(teacher)) for teacher in distill.teachers]


def check_digests(distill: Distill) -> list[str]:
    """The SHA-256 of each teacher's weights; refuses one that is missing, there twice, or not the one recorded."""
    digests: list[str] = []
    folders = teacher_folders(distill)
    for number, folder in enumerate(folders):
        try:
            read_description(folder)
            digests.append(weights_digest(folder))
        except TailcloudError as error:
            raise TailcloudError(f"the teacher {error}") from None
        recorded = distill.sha256[number] if distill.sha256 else digests[-1]
        if digests[-1] != recorded:
            raise TailcloudError(
                f"the teacher {folder.path} is not the one that this recipe records ({folder.weights_file.name} has "
                f"the SHA-256 {digests[-1][:12]}…, recorded is {recorded[:12]}…); restore it, or start a new run"
            )
        if (first := folders[digests.index(digests[-1])]) is not folder:
            which = "is given twice" if first.path == folder.path else f"has the weights of {first.path}"
            raise UsageError(f"the teacher {folder.path} {which}, and would count twice; give every teacher once")
    return digests


def check_teacher(path: Path, teacher: ModelFile, dataset: Dataset) -> None:
    """Refuse a teacher that has other classes, another image size or another normalisation than the data."""
    if differs := class_difference(teacher.class_names, dataset.class_names, "this run"):
        raise UsageError(f"the teacher {path} {differs}; a teacher needs the same classes, in the same order")
    if teacher.image_shape != tuple(dataset.shape):
        here, there = (" × ".join(map(str, shape)) for shape in (dataset.shape, teacher.image_shape))
        raise UsageError(
            f"the teacher {path} sees images of {there} (height, width, channels), and this run has {here}; train both "
            "with the same data.size"
        )
    theirs, ours = (teacher.transform.mean, teacher.transform.std), (dataset.mean, dataset.std)
    if differs := normalisation_difference(theirs, ours, "this run"):
        raise UsageError(f"the teacher {path} {differs}; train both on the same data, from the same weights")


def data_remarks(folder: RunFolder, dataset: Dataset) -> list[str]:
    """A remark if a teacher was trained on other data, among which test images of this run may be."""
    if not folder.finished:  # a model without its result
        return [f"The teacher {folder.path} does not say which data it was trained on."]
    data = folder.result().dataset
    if data.fingerprint == dataset.fingerprint:
        return []
    return [
        f"The teacher {folder.path} was trained on other data ({data.spec}, fingerprint {data.fingerprint}; here "
        f"{dataset.fingerprint}): if they contain test images of this run, its figures are too high."
    ]


def kernel_remarks(teachers: Teachers, names: Sequence[str], height: int, width: int) -> list[str]:
    """A remark for each teacher, by its name, that PyTorch's kernels compute in a run of fused ones."""
    return [
        f"The teacher {names[number]} is computed by PyTorch's kernels, which are slower than those of this run: fused "
        f"ones cannot be used ({reason})."
        for number, reason in teachers.slow_teachers(height, width).items()
    ]


def prior_remarks(teachers: Teachers, own: Prior) -> list[str]:
    """A remark if the teachers' logits and the loss imply different class priors: those of the student lie between."""
    if teachers.prior is None or same_prior(teachers.prior, own):
        return []
    return [
        "The logits of the teachers imply other class frequencies than the loss of this stage, so those that this "
        "model assumes are not exact; choose a loss that re-balances classes as the teachers' does."
    ]
