"""A trained model from its run folder: data only, nothing in it is executed."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tailcloud.classifier import Architecture, Classifier, hollow_classifier
from tailcloud.data.transform import Normalise
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import read_json

WEIGHTS, ABOUT = "model.safetensors", "model.json"


class TrainedClassifier(nn.Module):
    """A trained module with what belongs to it.

    Calling it gives logits [batch, classes] for normalised images; ``transform`` makes those from uint8 images
    [batch, H, W, C]; ``class_names`` and ``counts`` (training images per class) are in the order of the logits.
    """

    def __init__(self, classifier: Classifier, about: dict[str, Any]) -> None:
        super().__init__()
        self.classifier = classifier
        self.transform = Normalise(about["transform"]["mean"], about["transform"]["std"])
        self.size: tuple[int, int] = tuple(about["transform"]["size"])
        self.class_names: list[str] = about["class_names"]
        self.counts: list[int] = about["counts"]
        self.scale: float = about["calibration"]["scale"]

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised images."""
        outputs: Tensor = self.classifier(images)
        return self.scale * outputs

    @torch.inference_mode()
    def predict_proba(self, images: Tensor) -> Tensor:
        """Probabilities [batch, classes] of uint8 images [batch, H, W, C], on the module's device."""
        channels = len(self.transform.mean)
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] != channels:
            raise UsageError(
                f"images must be a uint8 tensor [batch, height, width, {channels}], not {images.dtype} "
                f"{list(images.shape)}; call the module itself on images that you normalised"
            )
        device = next(self.parameters()).device
        logits: Tensor = self(self.transform(images).to(device))
        return logits.softmax(dim=1)


def load(run: str | Path) -> TrainedClassifier:
    """The trained module of a run folder, on the CPU, in evaluation mode.

    >>> model = tailcloud.load("runs/digits-lt-gcl-seed0")                  # doctest: +SKIP
    >>> names = [model.class_names[i] for i in model.predict_proba(images).argmax(dim=1)]  # doctest: +SKIP
    """
    folder = Path(run)
    if not (folder / ABOUT).is_file():
        raise TailcloudError(
            f"{folder} holds no trained model: there is no {ABOUT} in it; a run that is not finished goes on with "
            f'"tailcloud train --resume --out {folder}"'
        )
    about = read_json(folder / ABOUT)
    try:
        classifier = hollow_classifier(Architecture(**about["architecture"]))
        classifier.load_state_dict(load_file(folder / WEIGHTS), assign=True)
        return TrainedClassifier(classifier, about).eval()
    except FileNotFoundError:
        raise TailcloudError(f"{folder / WEIGHTS} is missing") from None
    except (SafetensorError, RuntimeError, KeyError, TypeError):
        raise TailcloudError(
            f"{folder} holds a damaged model: {WEIGHTS} and {ABOUT} do not fit together; copy the run folder again"
        ) from None
