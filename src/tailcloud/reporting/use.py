"""What a result says about a model in use: calibrated confidences, and other mixes of classes."""

from pydantic import Field

from tailcloud.reporting.record import Bin, Measured, Part


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
