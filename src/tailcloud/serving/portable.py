"""A trained model as one module that can leave tailcloud: pixels in, calibrated probabilities out."""

import json

import torch
from torch import Tensor, nn

import tailcloud
from tailcloud.classifier import Classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.runs.model_file import ModelFile


class PortableClassifier(nn.Module):
    """uint8 images [batch, H, W, C] to probabilities [batch, classes], normalisation and calibration inside."""

    factor: Tensor
    offset: Tensor

    def __init__(self, classifier: Classifier, about: ModelFile) -> None:
        super().__init__()
        self.classifier, transform = classifier, Normalise(about.transform.mean, about.transform.std)
        self.register_buffer("factor", transform.factor)
        self.register_buffer("offset", transform.offset)
        self.sharpness = about.calibration.scale / about.calibration.temperature
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Probabilities."""
        normalised = torch.addcmul(self.offset, images.float(), self.factor).permute(0, 3, 1, 2)
        outputs: Tensor = self.classifier(normalised)
        return (self.sharpness * outputs).softmax(dim=1)


def image_shape(about: ModelFile) -> tuple[int, int, int]:
    """Height, width and channels of an image."""
    return *about.transform.size, about.architecture.channels


def metadata(about: ModelFile) -> dict[str, str]:
    """What a program needs to know beside the numbers, as the texts that file formats have room for."""
    return {
        "class_names": json.dumps(about.class_names),
        "size": json.dumps(about.transform.size),
        "channels": json.dumps(about.architecture.channels),
        "fit": about.transform.fit,
        "keep": json.dumps(about.transform.keep),
        "scale": json.dumps(about.calibration.scale),
        "temperature": json.dumps(about.calibration.temperature),
        "fitted_on": json.dumps(about.calibration.fitted_on),
        "prior": json.dumps(about.prior),
        "tailcloud": tailcloud.__version__,
    }
