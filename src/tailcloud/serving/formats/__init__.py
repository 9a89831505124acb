"""Export formats: how a model is encoded in each, and run from it again."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcloud.runs.model_file import ModelFile
from tailcloud.serving.formats import onnx, pt2, safetensors
from tailcloud.serving.portable import PortableClassifier

__all__ = ["FORMATS", "Format", "Predictor"]

Predictor = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


@dataclass(frozen=True)
class Format:
    """A file format.

    Args:
        file: the file name in a run folder.
        encode: makes the content of the file.
        open: makes a function from uint8 images to probabilities out of the content.
        checker: the package that runs this function.
        needs: packages that tailcloud itself does not need.
    """

    file: str
    encode: Callable[[PortableClassifier, ModelFile], bytes]
    open: Callable[[bytes], Predictor]
    checker: str
    needs: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "onnx": Format("model.onnx", onnx.encode, onnx.open_model, "onnxruntime", ("onnx", "onnxscript", "onnxruntime")),
    "pt2": Format("model.pt2", pt2.encode, pt2.open_model, "torch.export"),
    # another name than model.safetensors, which the run folder has, without class names and calibration
    "safetensors": Format("portable.safetensors", safetensors.encode, safetensors.open_model, "safetensors"),
}
