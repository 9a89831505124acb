"""What the tests of exports share."""

from functools import cache

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry


@pytest.fixture(scope="session", autouse=True)
def one_onnx_registry():
    """PyTorch reads 500 operators of ONNX anew for every export, which takes longer than a small model."""
    with pytest.MonkeyPatch.context() as patch:
        read_once = staticmethod(cache(ONNXRegistry.from_torchlib))
        patch.setattr(ONNXRegistry, "from_torchlib", read_once)
        yield
