"""ONNX: a graph with its weights; onnxruntime runs it without PyTorch."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import tailcloud
from tailcloud.runs.model_file import ModelFile
from tailcloud.serving.formats.pt2 import traced
from tailcloud.serving.portable import PortableClassifier, metadata

OPSET = 18  # old enough for common runtimes
INPUT, OUTPUT = "images", "probabilities"


def encode(model: PortableClassifier, model_file: ModelFile) -> bytes:
    """The content of an .onnx file; class names and other metadata are in ``metadata_props``."""
    import onnx

    with _silence():
        program = _decomposed(traced(model, model_file))
        converted = torch.onnx.export(
            program, dynamo=True, opset_version=OPSET, input_names=[INPUT], output_names=[OUTPUT], verbose=False
        )
    assert converted is not None
    proto = converted.model_proto
    proto.producer_name, proto.producer_version = "tailcloud", tailcloud.__version__
    proto.graph.ClearField("value_info")  # shapes; readers infer them
    for node in proto.graph.node:
        node.ClearField("metadata_props")  # has file names of this machine
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.helper.set_model_props(proto, metadata(model_file))
    onnx.checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content


def open_model(content: bytes) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function that runs the model in onnxruntime, on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = session.run([OUTPUT], {INPUT: images})[0]
        return probabilities

    return predict


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Replace operators that ONNX lacks."""
    for node in program.graph.nodes:  # in place, PyTorch takes ReLU6 apart first: most of the time of an export
        if node.target == torch.ops.aten.relu6_.default and _is_read_once(node.args[0]):
            node.target = torch.ops.aten.relu6.default
    replacements = {torch.ops.aten.cdist.default: _distances}
    needed = any(node.target in replacements for node in program.graph.nodes)
    return program.run_decompositions({**replacements}) if needed else program


def _is_read_once(node: torch.fx.Node) -> bool:
    """Whether nobody but one node sees these numbers: batch norm has memory of its own."""
    return node.target == torch.ops.aten.batch_norm.default and len(node.users) == 1


def _distances(x: Tensor, y: Tensor, p: float = 2.0, _mode: int | None = None) -> Tensor:
    """‖x_i − y_j‖_p."""
    distances: Tensor = torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), ord=p, dim=-1)
    return distances


@contextmanager
def _silence() -> Iterator[None]:
    """Hide the exporter's warnings, which concern other packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
