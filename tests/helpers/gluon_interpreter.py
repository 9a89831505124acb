"""Gluon kernels in Triton's interpreter, which knows only Triton: layouts are forgotten, the rest is the same.

Layouts decide which thread holds a number, not its value. Whether a layout fits is for the compiler (``compiling.py``)
and for a GPU.
"""

import sys
from types import ModuleType

import triton
import triton.experimental
import triton.language as tl

WARPS = 4


class Language(ModuleType):
    """``triton.experimental.gluon.language``, by the functions of Triton that have the same name."""

    def __getattr__(self, name):
        return getattr(tl, name)  # when it is called: the interpreter replaces them while a kernel runs

    def arange(self, start, end, _layout=None):
        return tl.arange(start, end)

    def zeros(self, shape, dtype, _layout=None):
        return tl.zeros(shape, dtype)

    def convert_layout(self, value, _layout):
        return value

    def num_warps(self):
        return WARPS

    def _no_layout(self, *_sizes):
        return None

    BlockedLayout = SliceLayout = DotOperandLayout = NVMMADistributedLayout = _no_layout


def mma_v2(left, right, total, input_precision=None):
    return tl.dot(left, right, total, input_precision=input_precision)


def import_kernels():
    """Import the Gluon kernels as Triton's; Triton itself needs the real Gluon afterwards."""
    import triton.experimental.gluon.language.nvidia.ampere as real

    gluon, language, ampere = ModuleType("gluon"), Language("language"), ModuleType("ampere")
    gluon.jit, gluon.language, ampere.mma_v2 = triton.jit, language, mma_v2
    triton.experimental.gluon, real_gluon = gluon, triton.experimental.gluon
    sys.modules[real.__name__] = ampere
    try:
        import tailcloud.kernels.gluon_convolution  # noqa: F401
    finally:
        triton.experimental.gluon = real_gluon
        sys.modules[real.__name__] = real
