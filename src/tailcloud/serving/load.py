"""A trained model from its run folder: data only, nothing in it is executed."""

from pathlib import Path

import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tailcloud.calibration.priors import adjustment, normalised
from tailcloud.classifier import Classifier, meta_classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.model_file import About, read_about

WEIGHTS, ABOUT = "model.safetensors", "model.json"


class TrainedClassifier(nn.Module):
    """A trained module with what belongs to it.

    Calling it gives logits [batch, classes] for normalised images; ``transform`` makes those from uint8 images
    [batch, H, W, C]; ``class_names`` and ``counts`` (training images per class) are in the order of the logits.
    Divided by ``temperature``, logits give calibrated probabilities; that was fitted on the part of the data that
    ``fitted_on`` names, or is 1. ``prior`` is the mix of classes that the logits assume (None where an older model does
    not say). ``size`` (height, width), ``fit`` and ``keep`` (the share of its middle) say how a picture becomes an
    image of the model.
    """

    def __init__(self, classifier: Classifier, about: About) -> None:
        super().__init__()
        self.classifier = classifier
        self.transform = Normalise(about.transform.mean, about.transform.std)
        self.size, self.fit, self.keep = about.transform.size, about.transform.fit, about.transform.keep
        self.class_names, self.counts = about.class_names, about.counts
        self.scale, self.temperature = about.calibration.scale, about.calibration.temperature
        self.fitted_on = about.calibration.fitted_on
        self.prior = None if about.prior is None else normalised(about.prior)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised images."""
        outputs: Tensor = self.classifier(images)
        return self.scale * outputs

    @torch.inference_mode()
    def predict_proba(self, images: Tensor, prior: ArrayLike | None = None) -> Tensor:
        """Calibrated probabilities [batch, classes] of uint8 images [batch, H, W, C], on the module's device.

        ``prior`` is the mix of classes that is expected where the images come from, one share per class; by default
        the one that the model was trained for, ``self.prior``.
        """
        channels = len(self.transform.mean)
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] != channels:
            raise UsageError(
                f"images must be a uint8 tensor [batch, height, width, {channels}], not {images.dtype} "
                f"{list(images.shape)}; call the module itself on images that you normalised"
            )
        device = next(self.parameters()).device
        logits: Tensor = self(self.transform(images).to(device)) / self.temperature
        if prior is not None:
            logits += self.shift(prior).to(logits)
        return logits.softmax(dim=1)

    def shift(self, prior: ArrayLike) -> Tensor:
        """What a mix of classes adds to calibrated logits."""
        wanted = normalised(prior)
        if self.prior is None:
            raise TailcloudError(
                "this model was trained by an older tailcloud and does not say which mix of classes it assumes: no "
                "other one can be put in its place; train it again, or leave out the prior"
            )
        if len(wanted) != len(self.class_names):
            raise UsageError(f"the prior has {len(wanted)} shares, and the model {len(self.class_names)} classes")
        return torch.from_numpy(adjustment(wanted, self.prior))


def load(run: str | Path) -> TrainedClassifier:
    """The trained module of a run folder, on the CPU, in evaluation mode; or that of a file that was exported.

    >>> model = tailcloud.load("runs/digits-lt-gcl-seed0")                  # doctest: +SKIP
    >>> names = [model.class_names[i] for i in model.predict_proba(images).argmax(dim=1)]  # doctest: +SKIP
    """
    folder = Path(run)
    if folder.is_file():
        from tailcloud.serving.formats.safetensors import decode

        return TrainedClassifier(*decode(folder.read_bytes(), str(folder))).eval()
    if not (folder / ABOUT).is_file():
        raise TailcloudError(f"{folder} holds no trained model: {_without_model(folder)}")
    about = read_about(folder / ABOUT)
    try:
        classifier = meta_classifier(about.architecture)
        classifier.load_state_dict(load_file(folder / WEIGHTS), assign=True)
        return TrainedClassifier(classifier, about).eval()
    except FileNotFoundError:
        raise TailcloudError(f"{folder / WEIGHTS} is missing") from None
    except (SafetensorError, RuntimeError, KeyError, TypeError):
        raise TailcloudError(
            f"{folder} holds a damaged model: {WEIGHTS} and {ABOUT} do not fit together; copy the run folder again"
        ) from None


def _without_model(folder: Path) -> str:
    """Why a folder has no model, and what to do."""
    if not folder.exists():
        return "there is no such folder; name that of a finished run"
    if not (folder / "recipe.toml").is_file():
        return f"there is no {ABOUT} in it; name the folder of a finished run"
    return f'its run is not finished, and goes on with "tailcloud train --resume --out {folder}"'
