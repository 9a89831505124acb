"""The schema of ``model.json``: what is needed to use the weights of a run. The file is untrusted."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from tailcloud.classifier import Architecture
from tailcloud.data.read_options import Fit
from tailcloud.errors import TailcloudError
from tailcloud.files import read_json, write_json
from tailcloud.runs.record import FileRecord, ImageCount, first_problem
from tailcloud.runs.weights_record import WeightsRecord

LARGEST_FILE = 1 << 28  # bytes
Side = Annotated[int, Field(ge=1, le=4096)]  # pixels
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


class ModelFileRecord(FileRecord):
    """A table of model.json: NaN and infinity are refused."""

    model_config = ConfigDict(allow_inf_nan=False)


class ImageTransform(ModelFileRecord):
    """How an image file becomes an input of the model: size (height, width), resizing, and normalisation."""

    size: tuple[Side, Side]
    mean: Annotated[list[float], Field(min_length=1, max_length=4)]
    std: list[Positive]
    fit: Fit = "squash"
    keep: Share = 1.0


class CalibrationSettings(ModelFileRecord):
    """scale · outputs / temperature are calibrated logits; ``fitted_on`` is None if no images were held out."""

    scale: Positive
    temperature: Positive = 1.0
    fitted_on: str | None = None


class ModelFile(ModelFileRecord):
    """A whole ``model.json``.

    ``counts`` are the training images of each class, ``class_sizes`` those before ``data.max_count`` left some out, if
    it did. ``prior`` is the class prior that the outputs assume, None in older files. ``weights`` are the pretrained
    weights that training started from.
    """

    architecture: Architecture
    class_names: Annotated[list[str], Field(min_length=1)]
    counts: list[ImageCount]
    transform: ImageTransform
    calibration: CalibrationSettings
    class_sizes: list[ImageCount] | None = None
    prior: list[Share] | None = None
    weights: WeightsRecord | None = None

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        lists = self.class_names, self.counts, self.class_sizes or self.counts, self.prior or self.counts
        lengths = set(map(len, lists))
        if lengths != {self.architecture.classes}:
            raise ValueError("class names, counts, class sizes and prior must have one entry per class")
        if not len(self.transform.mean) == len(self.transform.std) == self.architecture.channels:
            raise ValueError("mean and std must have one entry per channel")
        return self

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an input image."""
        return *self.transform.size, self.architecture.channels


def read_model_file(path: Path) -> ModelFile:
    """The content of a ``model.json``; an error that names the first problem if it cannot be used."""
    if path.stat().st_size > LARGEST_FILE:
        raise TailcloudError(f"{path} is larger than any model.json that tailcloud writes; it is not read")
    try:
        return ModelFile.model_validate(read_json(path))
    except ValidationError as error:
        raise TailcloudError(
            f"{path} is damaged or was not written by tailcloud ({first_problem(error)}); copy the run folder again"
        ) from None


def write_model_file(path: Path, model_file: ModelFile) -> None:
    """Write a ``model.json``."""
    write_json(path, model_file.content())
