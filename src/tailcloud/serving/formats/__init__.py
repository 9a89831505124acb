"""Files that other programs read: how a model is written into each, and run from it again."""

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
    """A kind of file.

    Args:
        file: its name in a run folder.
        encode: the content of the file.
        open: from the content to a function from uint8 images to probabilities.
        checker: what runs that function.
        needs: packages that tailcloud itself does not.
    """

    file: str
    encode: Callable[[PortableClassifier, ModelFile], bytes]
    open: Callable[[bytes], Predictor]
    checker: str
    needs: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "onnx": Format("model.onnx", onnx.encode, onnx.open_model, "onnxruntime", ("onnx", "onnxscript", "onnxruntime")),
    "pt2": Format("model.pt2", pt2.encode, pt2.open_model, "torch.export"),
    # model.safetensors is the run's own, without what belongs to its numbers
    "safetensors": Format("portable.safetensors", safetensors.encode, safetensors.open_model, "safetensors"),
}
