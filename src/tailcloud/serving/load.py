"""Load a trained model from its run folder. The files are data only; nothing in them is executed."""

from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from tailcloud.calibration.priors import adjustment, normalised
from tailcloud.classifier import Classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile
from tailcloud.runs.trained_model import read_trained_model


class TrainedClassifier(nn.Module):
    """A trained model in PyTorch, with its class names, normalisation and calibration.

    Calling it gives logits [batch, classes] for normalised images; ``transform`` makes those from uint8 images
    [batch, H, W, C]. ``class_names``, ``counts`` (training images per class) and ``frequencies`` (the same with those
    that ``data.max_count`` left out) are in the order of the logits.
    ``softmax(logits / temperature)`` are calibrated probabilities; the temperature was fitted on the split
    ``fitted_on``, and is 1 if that is None. ``prior`` is the class prior that the logits assume (None in models
    of older versions). ``size`` (height, width), ``fit`` and ``keep`` (the central share that is kept) say how an image
    file is resized. ``weights`` says which pretrained weights training started from, and under which licence; None if
    it started from scratch.
    """

    def __init__(self, classifier: Classifier, model_file: ModelFile) -> None:
        super().__init__()
        transform, calibration = model_file.transform, model_file.calibration
        self.classifier = classifier
        self.transform = Normalise(transform.mean, transform.std)
        self.size, self.fit, self.keep = transform.size, transform.fit, transform.keep
        self.class_names, self.counts = model_file.class_names, model_file.counts
        self.frequencies = model_file.class_sizes or model_file.counts
        self.scale, self.temperature, self.fitted_on = calibration.scale, calibration.temperature, calibration.fitted_on
        self.prior = None if model_file.prior is None else normalised(model_file.prior)
        self.weights = model_file.weights

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised images."""
        outputs: Tensor = self.classifier(images)
        return self.scale * outputs

    @torch.inference_mode()
    def predict_proba(self, images: Tensor, prior: ArrayLike | None = None) -> Tensor:
        """Calibrated probabilities [batch, classes] of uint8 images [batch, H, W, C], on the module's device.

        ``prior`` is the expected class prior, one share per class; ``self.prior`` by default.
        """
        channels = len(self.transform.mean)
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] != channels:
            raise UsageError(
                f"images must be a uint8 tensor [batch, height, width, {channels}], not {images.dtype} "
                f"{list(images.shape)}; for images that are already normalised, call the module itself"
            )
        device = next(self.parameters()).device
        logits: Tensor = self(self.transform(images).to(device)) / self.temperature
        if prior is not None:
            logits += self.shift(prior).to(logits)
        return logits.softmax(dim=1)

    def shift(self, prior: ArrayLike) -> Tensor:
        """What to add to calibrated logits for another class prior, float64 [classes]."""
        wanted = normalised(prior)
        if self.prior is None:
            raise TailcloudError(
                "this model was trained by an older tailcloud and does not record which class frequencies it assumes, "
                "so they cannot be adjusted; train it again, or leave out the prior"
            )
        if len(wanted) != len(self.class_names):
            raise UsageError(f"the prior has {len(wanted)} shares, and the model has {len(self.class_names)} classes")
        return torch.from_numpy(adjustment(wanted, self.prior))


def load(run: str | Path) -> TrainedClassifier:
    """Load the model of a run folder, or of an exported safetensors file: on the CPU, in evaluation mode.

    >>> model = tailcloud.load("runs/digits-lt-gcl-seed0")                  # doctest: +SKIP
    >>> names = [model.class_names[i] for i in model.predict_proba(images).argmax(dim=1)]  # doctest: +SKIP
    """
    folder = RunFolder(Path(run))
    if folder.path.is_file():
        from tailcloud.serving.formats.safetensors import decode

        return TrainedClassifier(*decode(folder.path.read_bytes(), str(folder.path))).eval()
    return TrainedClassifier(*read_trained_model(folder)).eval()
