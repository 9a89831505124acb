"""PyTorch's export format: a program with its weights. ``torch.export.load`` reads it without tailcloud."""

import io
import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.runs.model_file import ModelFile
from tailcloud.serving.portable import PortableClassifier, metadata

TRACED_BATCH = 2  # with one image, PyTorch would fix the batch size to 1


def traced(model: PortableClassifier, model_file: ModelFile) -> torch.export.ExportedProgram:
    """The model as a graph, for any batch size."""
    images = torch.zeros(TRACED_BATCH, *model_file.image_shape, dtype=torch.uint8)
    program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # has file names of this machine
    return program


def encode(model: PortableClassifier, model_file: ModelFile) -> bytes:
    """The content of a .pt2 file; class names and other metadata are extra files, one per key."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(traced(model, model_file), file, extra_files=metadata(model_file))
    return file.getvalue()


def open_model(content: bytes) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function that runs the loaded model."""
    module = torch.export.load(io.BytesIO(content)).module()

    @torch.inference_mode()
    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = module(torch.from_numpy(images)).numpy()
        return probabilities

    return predict
