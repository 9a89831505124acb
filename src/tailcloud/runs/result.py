"""The schema of ``result.json``: what a run was trained on, how, and every figure that was measured.

The order of the classes, and of the fields in them, is that of the file. Figures are percentages unless they say
otherwise; None if nothing could be measured, or if the file is older than the field.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from tailcloud.errors import TailcloudError
from tailcloud.evaluation.paired_difference import BEYOND_CHANCE
from tailcloud.files import read_json, write_json
from tailcloud.profile import GROUPS, shot_groups
from tailcloud.runs.record import FileRecord, ImageCount, Measured, first_problem
from tailcloud.runs.weights_record import WeightsRecord

LISTED_CLASSES = 10_000  # classes that a page lists one by one


class BestEpoch(FileRecord):
    """The epoch with the highest accuracy."""

    stage: str
    epoch: int


class Top1(FileRecord):
    """Top-1 accuracy of the last epoch, and of the best of ``evaluated_epochs`` on the split ``best_on``.

    These are the evaluated epochs of the stage of ``best_epoch``.
    """

    last: Measured
    best: Measured = None
    best_on: str | None = None
    best_epoch: BestEpoch | None = None
    evaluated_epochs: int | None = None


class ReliabilityBin(FileRecord):
    """One bin of the reliability diagram: images, mean confidence and accuracy (from 0 to 1)."""

    count: int
    confidence: Measured = None
    accuracy: Measured = None


class Scores(FileRecord):
    """What is measured on the test split. ``top5`` is top-k accuracy; k = ``top_k`` is below 5 with fewer classes."""

    top5: Measured = None
    top_k: int = 5
    balanced_accuracy: Measured = None
    macro_f1: Measured = None
    many: Measured = None
    medium: Measured = None
    few: Measured = None
    per_class: list[Measured] = Field(default_factory=list)
    ece: Measured = None
    reliability: list[ReliabilityBin] = Field(default_factory=list)


class EpochChoice(FileRecord):
    """The epoch of the kept weights, the split on which it was chosen, and its top-1 accuracy."""

    epoch: int
    on: str
    top1: Measured = None


class PickedEpoch(Scores, EpochChoice):  # the fields of the last base come first
    """The epoch of the kept weights, if it is not the last one, with its scores."""


class BestOfStage(FileRecord):
    """The best of the evaluated epochs of a stage, its top-1 accuracy on the test split, and the split that decided."""

    epoch: int
    top1: Measured = None
    on: str
    evaluated_epochs: int | None = None


class StageTop1(FileRecord):
    """A stage and its top-1 accuracy after the last epoch."""

    name: str
    epochs: int = 0
    top1: Measured = None


class AccuracyChange(FileRecord):
    """An accuracy before and after, on the same images, and the standard error of the difference, in points."""

    before: Measured = None
    after: Measured = None
    error: Measured = None

    @property
    def points(self) -> float:
        """After minus before."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def beyond_chance(self) -> bool:
        """Whether the difference is larger than chance explains, with 95 % confidence."""
        return abs(self.points) > BEYOND_CHANCE * (self.error or 0.0)


class StageChange(FileRecord):
    """What a stage changed on the test images since the stage before; ``groups`` are shot groups that have images."""

    since: str
    top1: AccuracyChange
    balanced_accuracy: AccuracyChange
    groups: dict[str, AccuracyChange] = Field(default_factory=dict)


class StageComparison(FileRecord):
    """Two stages on the held-out images, by the objective and by top-1 accuracy."""

    earlier: str
    later: str
    objective: AccuracyChange
    top1: AccuracyChange


class KeptStage(FileRecord):
    """The stage whose model is kept, chosen on held-out images, and why."""

    name: str
    reason: str = ""
    objective: str = "balanced"
    images: int = 0
    comparisons: list[StageComparison] = Field(default_factory=list)


class StageResult(Scores, StageTop1):
    """One stage of a run. The scores are of its last epoch; ``picked`` has those of the kept weights."""

    best: BestOfStage | None = None
    executor: str | None = None
    kernels: str | None = None
    seconds: Measured = None
    picked: PickedEpoch | None = None
    change: StageChange | None = None


class DatasetRecord(FileRecord):
    """The data set of a run; lists have one entry per class.

    ``counts`` are training images, ``class_sizes`` those before ``data.max_count`` left some out, if it did. ``fit``
    and ``keep`` say how images of another size are resized to ``shape``, ``native_side`` is the median of their shorter
    sides before that, in pixels.
    """

    spec: str
    fingerprint: str
    counts: list[ImageCount] = Field(min_length=1)
    class_sizes: list[ImageCount] | None = None
    test_counts: list[ImageCount] = Field(default_factory=list)
    class_names: list[str] = Field(default_factory=list)
    images: dict[str, int] = Field(default_factory=dict)
    shape: list[int] = Field(default_factory=list)
    fit: str | None = None
    keep: Measured = None
    native_side: int | None = None


class ProtocolRecord(FileRecord):
    """Seed, and how weights were selected: "last", or "best on" a split.

    ``seed`` is None for an average, whose members have one each. ``every``: epochs between two evaluations, or "auto".
    """

    seed: int | None
    selection: str = "last"
    split: float = 0.0
    every: int | Literal["auto"] = 1


class TeacherRecord(FileRecord):
    """A run that this one was distilled from: its folder, and the SHA-256 of its weights if that was recorded."""

    run: str
    sha256: str | None = None


class MemberRecord(FileRecord):
    """A run that an average is made of: its folder, the SHA-256 of its weights, its seed, and its top-1 accuracy."""

    run: str
    sha256: str
    seed: int | None = None
    top1: Measured = None


class ModelRecord(FileRecord):
    """The network, its cost, and the pretrained weights it started from; ``flops`` are those of one image.

    ``teachers`` are the runs that it was distilled from, ``members`` those whose logits it averages.
    """

    backbone: str = "unknown"
    head: str | None = None
    width: float | None = None
    parameters: int | None = None
    flops: int | Measured = None
    weights: WeightsRecord | None = None
    teachers: tuple[TeacherRecord, ...] = ()
    members: tuple[MemberRecord, ...] = ()


class CalibrationScores(FileRecord):
    """Expected calibration error, and the bins behind it."""

    ece: Measured = None
    reliability: list[ReliabilityBin] = Field(default_factory=list)


class BeforeAfter(FileRecord):
    """Calibration without and with the temperature; None for a shot group without images."""

    before: CalibrationScores | None = None
    after: CalibrationScores | None = None


class TemperatureFit(FileRecord):
    """The temperature, the split it was fitted on (None: nothing was fitted), and its images (None: not known)."""

    temperature: Measured = None
    fitted_on: str | None = None
    images: int | None = 0


class CalibrationChange(CalibrationScores):
    """Calibration with the temperature, without it (``before``), and both by shot group.

    ``by_chance`` is about the ECE that perfect probabilities would have on so few images.
    """

    by_chance: Measured = None
    before: CalibrationScores = CalibrationScores()
    groups: dict[str, BeforeAfter] = Field(default_factory=dict)


class AssumedMix(FileRecord):
    """The class prior to which images are weighted, by name, and how many images of equal weight they are worth."""

    prior: str = "other"
    effective_images: Measured = None


class WeightedCalibration(CalibrationChange, AssumedMix):
    """Calibration on test images that are weighted to the prior which the probabilities assume."""


class CalibrationResult(CalibrationChange, TemperatureFit):
    """Calibration on the test images as they are.

    ``weighted`` is for the class prior that the probabilities assume; None if the test images have it.
    """

    weighted: WeightedCalibration | None = None

    @property
    def in_use(self) -> CalibrationChange:
        """Calibration on images with the class prior that the probabilities assume."""
        return self.weighted or self


class AccuracyAtPrior(FileRecord):
    """Accuracy at some class prior: with plain logits, and with logits adjusted to this prior."""

    plain: Measured = None
    adjusted: Measured = None


class PriorResult(FileRecord):
    """Accuracy at three class priors: as in training, uniform, and reversed. ``assumed`` is the prior of the logits."""

    assumed: str = "other"
    forward: AccuracyAtPrior = AccuracyAtPrior()
    uniform: AccuracyAtPrior = AccuracyAtPrior()
    backward: AccuracyAtPrior = AccuracyAtPrior()


class GroupTestSize(NamedTuple):
    """How many classes have test images, and how many images; all classes and None if that was not recorded."""

    classes: int
    images: int | None


class MethodTop1(FileRecord):
    """A method and its top-1 accuracy."""

    method: str
    top1: Top1


class Result(Scores, MethodTop1):
    """A whole ``result.json``.

    The scores are of the very last epoch, or of the last epoch of ``kept_stage`` if an earlier stage is kept.
    ``picked`` has those of the kept weights if these are of another epoch; ``calibrated`` and ``priors`` are always of
    the kept weights. An average of runs has no stages of its own: ``recipe`` and ``dataset`` are those of its first
    member, ``seconds`` those of all.
    """

    confusion: list[tuple[int, int, int]] = Field(default_factory=list)  # (true class, predicted class, images)
    picked: PickedEpoch | None = None
    stages: list[StageResult] = Field(default_factory=list)
    kept_stage: KeptStage | None = None  # if stages were compared on held-out images
    dataset: DatasetRecord
    protocol: ProtocolRecord
    model: ModelRecord = ModelRecord()
    recipe: dict[str, Any] | None = None
    remarks: list[str] = Field(default_factory=list)
    seconds: Measured = None
    device: str = "unknown"
    version: str = "unknown"
    machine: dict[str, Any] = Field(default_factory=dict)
    commit: str | None = None
    command: str = ""
    finished: str | None = None
    calibrated: CalibrationResult | None = None
    priors: PriorResult | None = None

    @model_validator(mode="after")
    def _lengths_agree(self) -> "Result":
        classes = len(self.dataset.counts)
        if not any(self.dataset.counts):
            raise ValueError("every class count is 0")
        if self.protocol.seed is None and not self.model.members:
            raise ValueError("it has no seed, and is no average of runs")
        picked = (self.picked, *(stage.picked for stage in self.stages))
        scored: list[Scores] = [self, *self.stages, *(part for part in picked if part)]
        data = self.dataset
        described = (len(data.class_names), len(data.test_counts), len(data.class_sizes or ()))
        lengths = [*described, *(len(part.per_class) for part in scored)]
        if any(length not in {0, classes} for length in lengths):
            raise ValueError(f"its lists do not all have one entry for each of the {classes} classes")
        if any(not 0 <= index < classes for row in self.confusion for index in row[:2]):
            raise ValueError("its confusions name a class that does not exist")
        return self

    @property
    def ece_in_use(self) -> float | None:
        """The ECE of the probabilities that ``predict`` gives, at the class prior which they assume.

        Results of older versions have only that of the last epoch.
        """
        return self.calibrated.in_use.ece if self.calibrated else self.ece

    @property
    def stages_of_model(self) -> list[StageResult]:
        """The stages up to the one whose model is kept."""
        names = [stage.name for stage in self.stages]
        if self.kept_stage is None or self.kept_stage.name not in names:
            return self.stages
        return self.stages[: names.index(self.kept_stage.name) + 1]

    @property
    def best_of(self) -> int | None:
        """Among how many epochs the best one was chosen; None if that is not known.

        Older versions did not count them, but evaluated after every so many epochs and after the last one.
        """
        if self.top1.evaluated_epochs is not None or not self.stages or self.protocol.every == "auto":
            return self.top1.evaluated_epochs
        return -(-self.stages_of_model[-1].epochs // max(1, self.protocol.every))

    @property
    def best_of_all(self) -> bool:
        """Whether the best epoch was chosen among all epochs of its stage; True also if that is not known."""
        return self.best_of is None or not self.stages or self.best_of >= self.stages_of_model[-1].epochs

    @property
    def start_chosen_on(self) -> str | None:
        """The split that chose the weights from which the kept stage started; None if they were not chosen."""
        if self.started_from is None or self.protocol.selection == "last":
            return None
        if self.started_from.picked:
            return self.started_from.picked.on
        return None if self.recipe else self.protocol.selection.removeprefix("best on ")

    @property
    def started_from(self) -> StageResult | None:
        """The stage that the kept one started from; stages without epochs only change the head."""
        return next((stage for stage in reversed(self.stages_of_model[:-1]) if stage.epochs), None)

    @cached_property
    def names(self) -> list[str]:
        """The class names; numbers if the file has no names."""
        return self.dataset.class_names or [str(index) for index in range(len(self.dataset.counts))]

    @cached_property
    def order(self) -> list[int]:
        """The classes, the most frequent in training first."""
        return sorted(range(len(self.dataset.counts)), key=lambda index: -self.dataset.counts[index])

    @property
    def stride(self) -> int:
        """Pages list every ``stride``-th class: every one up to ``LISTED_CLASSES`` classes."""
        return -(-len(self.dataset.counts) // LISTED_CLASSES)

    @cached_property
    def group_of(self) -> list[str]:
        """The shot group of each class."""
        groups = shot_groups(self.dataset.counts)
        home = {int(index): name for name in GROUPS for index in groups[name]}
        return [home[index] for index in range(len(self.dataset.counts))]

    @cached_property
    def group_sizes(self) -> dict[str, int]:
        """How many classes each shot group has."""
        return {name: self.group_of.count(name) for name in GROUPS}

    @cached_property
    def tested(self) -> dict[str, GroupTestSize]:
        """The size of the test split of each shot group, and of "all" classes."""
        tests = self.dataset.test_counts
        if not tests:
            sizes = {**self.group_sizes, "all": len(self.group_of)}
            return {name: GroupTestSize(size, None) for name, size in sizes.items()}
        counts = {name: [n for n, group in zip(tests, self.group_of, strict=True) if group == name] for name in GROUPS}
        counts["all"] = tests
        return {name: GroupTestSize(sum(n > 0 for n in part), sum(part)) for name, part in counts.items()}


def parse_result(content: Mapping[str, Any] | Result, where: str = "the result") -> Result:
    """A checked result; an error that names the first problem if it is not one."""
    try:
        return Result.model_validate(content)
    except ValidationError as error:
        raise TailcloudError(f"{where} is damaged or was not written by tailcloud ({first_problem(error)})") from None


def read_result(path: Path) -> Result:
    """The result in a ``result.json``."""
    return parse_result(read_json(path), str(path))


def write_result(path: Path, result: Result) -> None:
    """Write a ``result.json``; what was read from one is written to the same bytes."""
    write_json(path, result.content())
