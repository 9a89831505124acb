"""PyTorch's own file: a program with its weights, for ``torch.export.load``, without this package."""

import io
import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.runs.model_file import ModelFile
from tailcloud.serving.portable import PortableClassifier, image_shape, metadata

TRACED = 2  # images; from one, PyTorch would conclude that there is always one


def traced(model: PortableClassifier, about: ModelFile) -> torch.export.ExportedProgram:
    """The model as a graph, for any number of images."""
    images = torch.zeros(TRACED, *image_shape(about), dtype=torch.uint8)
    program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # names files of this machine
    return program


def encode(model: PortableClassifier, about: ModelFile) -> bytes:
    """The content of a .pt2 file; class names and the like are in it as extra files, one for each key."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(traced(model, about), file, extra_files=metadata(about))
    return file.getvalue()


def open_model(content: bytes) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """Load it again."""
    module = torch.export.load(io.BytesIO(content)).module()

    @torch.inference_mode()
    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = module(torch.from_numpy(images)).numpy()
        return probabilities

    return predict
