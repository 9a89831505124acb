"""What the parts of a record have in common: keys of other versions are ignored, and what is no number is null."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tailcloud.errors import TailcloudError
from tailcloud.profile import GROUPS, shot_groups


def _finite(value: object) -> object:
    """NaN and infinity are no measurements."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Measured = Annotated[float | None, BeforeValidator(_finite)]


class Part(BaseModel):
    """A part of a record: keys that this version does not know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class Bin(Part):
    """One bin of the reliability diagram."""

    count: int
    confidence: Measured = None
    accuracy: Measured = None


class Calibration(Part):
    """Expected calibration error in percent, and the bins behind it."""

    ece: Measured = None
    reliability: list[Bin] = Field(default_factory=list)


class BeforeAfter(Part):
    """The calibration of some images without and with the temperature; null where there are no such images."""

    before: Calibration | None = None
    after: Calibration | None = None


class Calibrated(Calibration):
    """With the temperature, without it, and both by shot group; ``fitted_on`` is null where nothing was fitted."""

    temperature: Measured = None
    fitted_on: str | None = None
    images: int = 0
    before: Calibration = Calibration()
    groups: dict[str, BeforeAfter] = Field(default_factory=dict)


class Mix(Part):
    """Accuracy in percent where classes come in some mix: as the model is, and with its logits adjusted to the mix."""

    plain: Measured = None
    adjusted: Measured = None


class Priors(Part):
    """Accuracy where classes come as in training, all alike, or the other way around."""

    assumed: str = "other"
    forward: Mix = Mix()
    uniform: Mix = Mix()
    backward: Mix = Mix()


SHOWN = 10_000  # classes that a page lists one by one

Row = tuple[int, int, int]
Count = Annotated[int, Field(ge=0, lt=2**53)]  # of images


class Tested(NamedTuple):
    """How many classes have test images, and how many these are: all classes and None where that is not recorded."""

    classes: int
    images: int | None


class BestEpoch(Part):
    """Where the best epoch was."""

    stage: str
    epoch: int


class Top1(Part):
    """Top-1 accuracy of the last epoch, and of the best one on a named split."""

    last: Measured
    best: Measured = None
    best_on: str | None = None
    best_epoch: BestEpoch | None = None


class Scores(Part):
    """What is measured after a stage, in percent."""

    top5: Measured = None
    balanced_accuracy: Measured = None
    macro_f1: Measured = None
    many: Measured = None
    medium: Measured = None
    few: Measured = None
    per_class: list[Measured] = Field(default_factory=list)
    ece: Measured = None
    reliability: list[Bin] = Field(default_factory=list)
    seconds: Measured = None


class Picked(Scores):
    """The epoch whose weights were kept in place of the last one's, the split it was chosen on, and its scores."""

    epoch: int
    on: str
    top1: Measured = None


class Stage(Scores):
    """One stage of a run; its scores are of its last epoch, those of the kept weights stand apart."""

    name: str
    epochs: int = 0
    top1: Measured = None
    picked: Picked | None = None


class Data(Part):
    """The data set of a run."""

    spec: str
    fingerprint: str
    counts: list[Count] = Field(min_length=1)
    test_counts: list[Count] = Field(default_factory=list)
    class_names: list[str] = Field(default_factory=list)
    images: dict[str, int] = Field(default_factory=dict)
    shape: list[int] = Field(default_factory=list)


class Protocol(Part):
    """How the numbers came about."""

    seed: int
    selection: str = "last"
    split: float = 0.0
    every: int = 1


class Model(Part):
    """The network and its cost."""

    backbone: str = "unknown"
    head: str | None = None
    width: float | None = None
    parameters: int | None = None
    flops: Measured = None


class Result(Scores):
    """A whole result.json."""

    method: str
    top1: Top1
    top_k: int = 5
    confusion: list[Row] = Field(default_factory=list)
    picked: Picked | None = None
    calibrated: Calibrated | None = None
    priors: Priors | None = None
    stages: list[Stage] = Field(default_factory=list)
    dataset: Data
    protocol: Protocol
    model: Model = Model()
    recipe: dict[str, Any] | None = None
    remarks: list[str] = Field(default_factory=list)
    device: str = "unknown"
    version: str = "unknown"
    machine: dict[str, Any] = Field(default_factory=dict)
    commit: str | None = None
    command: str = ""
    finished: str | None = None

    @model_validator(mode="after")
    def _lengths_agree(self) -> "Result":
        classes = len(self.dataset.counts)
        if not any(self.dataset.counts):
            raise ValueError("every class count is 0")
        picked = (self.picked, *(stage.picked for stage in self.stages))
        scored: list[Scores] = [self, *self.stages, *(part for part in picked if part)]
        described = (len(self.dataset.class_names), len(self.dataset.test_counts))
        lengths = [*described, *(len(part.per_class) for part in scored)]
        if any(length not in {0, classes} for length in lengths):
            raise ValueError(f"its lists do not all have one entry for each of the {classes} classes")
        if any(not 0 <= index < classes for row in self.confusion for index in row[:2]):
            raise ValueError("its confusions name a class that does not exist")
        return self

    @property
    def begun_on(self) -> str | None:
        """The split on which the weights that the last stage began with were chosen; none if they were not chosen."""
        if self.begun_from is None or self.protocol.selection == "last":
            return None
        if self.begun_from.picked:
            return self.begun_from.picked.on
        return None if self.recipe else self.protocol.selection.removeprefix("best on ")

    @property
    def begun_from(self) -> Stage | None:
        """The stage whose weights the last one began with: one without epochs only changes the head."""
        return next((stage for stage in reversed(self.stages[:-1]) if stage.epochs), None)

    @cached_property
    def names(self) -> list[str]:
        """The class names; numbers where the file has none."""
        return self.dataset.class_names or [str(index) for index in range(len(self.dataset.counts))]

    @cached_property
    def order(self) -> list[int]:
        """The classes, the most frequent in training first."""
        return sorted(range(len(self.dataset.counts)), key=lambda index: -self.dataset.counts[index])

    @property
    def stride(self) -> int:
        """For how many classes one that is listed stands: 1 up to ``SHOWN`` classes; more would make no page."""
        return -(-len(self.dataset.counts) // SHOWN)

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
    def tested(self) -> dict[str, Tested]:
        """What the accuracy of each shot group, and of "all" classes, is measured on."""
        tests = self.dataset.test_counts
        if not tests:
            sizes = {**self.group_sizes, "all": len(self.group_of)}
            return {name: Tested(size, None) for name, size in sizes.items()}
        counts = {name: [n for n, group in zip(tests, self.group_of, strict=True) if group == name] for name in GROUPS}
        return {name: Tested(sum(n > 0 for n in some), sum(some)) for name, some in {**counts, "all": tests}.items()}


def parse_result(content: "Mapping[str, Any] | Result", where: str = "the result") -> Result:
    """A checked result, or one sentence that names the first thing that is wrong with it."""
    try:
        return Result.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        problem = f'"{key}": {reason[0].lower()}{reason[1:]}' if key else reason
        raise TailcloudError(f"{where} is damaged or was not written by tailcloud ({problem})") from None
