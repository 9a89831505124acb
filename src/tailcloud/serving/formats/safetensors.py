"""One safetensors file: the weights, and model.json in its metadata. Data only."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from tailcloud.classifier import Classifier, classifier_with_weights
from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, check_format
from tailcloud.runs.model_file import ModelFile
from tailcloud.serving.portable import PortableClassifier

CONFIG = "config"


def encode(model: PortableClassifier, model_file: ModelFile) -> bytes:
    """The content of a .safetensors file: weights and model.json of a run."""
    weights = {name: value.contiguous() for name, value in model.classifier.state_dict().items()}
    return save(weights, {"format": str(FORMAT), CONFIG: model_file.model_dump_json()})


def decode(content: bytes, where: str = "the file") -> tuple[Classifier, ModelFile]:
    """The model and the model.json of such a file."""
    try:
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        check_format(Path(where), int(metadata["format"]))
        model_file = ModelFile.model_validate_json(metadata[CONFIG])
        classifier = classifier_with_weights(model_file.architecture, load(content))
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
        raise TailcloudError(f"{where} is damaged, or was not exported by tailcloud") from None
    return classifier, model_file


def open_model(content: bytes) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function that runs the decoded model."""
    model = PortableClassifier(*decode(content))

    @torch.inference_mode()
    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = model(torch.from_numpy(images)).numpy()
        return probabilities

    return predict
