"""A trained model as one module for export: pixels in, calibrated probabilities out."""

import json

import torch
from torch import Tensor, nn

import tailcloud
from tailcloud.classifier import Classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.runs.model_file import ModelFile


class PortableClassifier(nn.Module):
    """uint8 images [batch, H, W, C] to probabilities [batch, classes], with normalisation and calibration."""

    factor: Tensor
    offset: Tensor

    def __init__(self, classifier: Classifier, model_file: ModelFile) -> None:
        super().__init__()
        self.classifier, transform = classifier, Normalise(model_file.transform.mean, model_file.transform.std)
        self.register_buffer("factor", transform.factor)
        self.register_buffer("offset", transform.offset)
        self.logit_factor = model_file.calibration.scale / model_file.calibration.temperature
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Probabilities."""
        normalised = torch.addcmul(self.offset, images.float(), self.factor).permute(0, 3, 1, 2)
        outputs: Tensor = self.classifier(normalised)
        return (self.logit_factor * outputs).softmax(dim=1)


def metadata(model_file: ModelFile) -> dict[str, str]:
    """What a program needs besides the weights, as strings for the metadata of a file."""
    return {
        "class_names": json.dumps(model_file.class_names),
        "size": json.dumps(model_file.transform.size),
        "channels": json.dumps(model_file.architecture.channels),
        "fit": model_file.transform.fit,
        "keep": json.dumps(model_file.transform.keep),
        "scale": json.dumps(model_file.calibration.scale),
        "temperature": json.dumps(model_file.calibration.temperature),
        "fitted_on": json.dumps(model_file.calibration.fitted_on),
        "prior": json.dumps(model_file.prior),
        "tailcloud": tailcloud.__version__,
        **({"weights": model_file.weights.model_dump_json()} if model_file.weights else {}),
    }
