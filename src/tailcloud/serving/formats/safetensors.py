"""One safetensors file: the weights, and the whole description as JSON in its metadata. Data only."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from tailcloud.classifier import Classifier, meta_classifier
from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, check_format
from tailcloud.runs.model_file import About
from tailcloud.serving.portable import Portable

CONFIG = "config"


def encode(model: Portable, about: About) -> bytes:
    """The content of a .safetensors file: the tensors of a run's model.safetensors, described."""
    weights = {name: value.contiguous() for name, value in model.classifier.state_dict().items()}
    return save(weights, {"format": str(FORMAT), CONFIG: about.model_dump_json()})


def decode(content: bytes, where: str = "the file") -> tuple[Classifier, About]:
    """The model of such a file and its description, from nothing else."""
    try:
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        check_format(Path(where), int(metadata["format"]))
        about = About.model_validate_json(metadata[CONFIG])
        classifier = meta_classifier(about.architecture)
        classifier.load_state_dict(load(content), assign=True)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
        raise TailcloudError(f"{where} is damaged, or was not exported by tailcloud") from None
    return classifier, about


def open_model(content: bytes) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """Build the model again."""
    model = Portable(*decode(content))

    @torch.inference_mode()
    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = model(torch.from_numpy(images)).numpy()
        return probabilities

    return predict
