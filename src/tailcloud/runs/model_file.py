"""What model.json says about a model, checked: the file may come from a stranger."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tailcloud.classifier import Architecture
from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError
from tailcloud.files import read_json

LARGEST_FILE = 1 << 28  # bytes
Side = Annotated[int, Field(ge=1, le=4096)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**53)]  # of images


class Record(BaseModel):
    """A table of model.json; what a later version adds is left alone."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Transform(Record):
    """How a picture becomes an image of the model, and how that is normalised."""

    size: tuple[Side, Side]
    mean: Annotated[list[float], Field(min_length=1, max_length=4)]
    std: list[Positive]
    fit: Fit = "squash"
    keep: Share = 1.0


class Calibration(Record):
    """scale · outputs / temperature are calibrated logits; ``fitted_on`` is None where nothing was held out."""

    scale: Positive
    temperature: Positive = 1.0
    fitted_on: str | None = None


class About(Record):
    """All of it; ``prior`` is the mix of classes that the outputs assume, where the file says so."""

    architecture: Architecture
    class_names: Annotated[list[str], Field(min_length=1)]
    counts: list[Count]
    transform: Transform
    calibration: Calibration
    prior: list[Share] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        lengths = {len(self.class_names), len(self.counts), len(self.prior or self.counts)}
        if lengths != {self.architecture.classes}:
            raise ValueError("class names, counts and prior must have one entry per class")
        if not len(self.transform.mean) == len(self.transform.std) == self.architecture.channels:
            raise ValueError("mean and std must have one entry per channel")
        return self


def read_about(path: Path) -> About:
    """The content of a model.json, or a sentence that says why it cannot be used."""
    if path.stat().st_size > LARGEST_FILE:
        raise TailcloudError(f"{path} is larger than any model.json that tailcloud writes; it is not read")
    try:
        return About.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        said = ": ".join([*(str(part) for part in first["loc"]), first["msg"].removeprefix("Value error, ")])
        raise TailcloudError(
            f"{path} is damaged or was not written by tailcloud ({said}); copy the run folder again"
        ) from None
