"""Where the ``check_*`` files compute: on a GPU, or in Triton's interpreter on the CPU.

The interpreter must be chosen before Triton is imported, so ``test_checks.py`` runs each of them in a process of its
own, whatever other tests have imported. This must be imported before any kernel.
"""

import os

import numpy as np
import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")

needs_somewhere = pytest.mark.skipif(
    not INTERPRETED and not torch.cuda.is_available(),
    reason="needs a GPU or TRITON_INTERPRET=1, as test_checks.py has it",
)


def repair_interpreter():
    """It multiplies the bits of bfloat16 numbers and rounds them down; and most of its time is spent otherwise.

    Half of it on overflows; and wherever a kernel calls a function, all names of the language are looked up again.
    """
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle, interpreter_builder

    object.__setattr__(interpreter_builder.options, "sanitize_overflow", False)
    patched, patch_language = set(), interpreter._patch_lang

    def call(self, *arguments, **options):
        if id(self.fn.__globals__) not in patched:  # what the kernel itself sees was patched when it was launched
            patch_language(self.fn)
            patched.add(id(self.fn.__globals__))
        return self.rewrite()(*arguments, **options)

    InterpretedFunction.__call__ = call
    cast, dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def rounded(self, source, kind):
        if (source.dtype.scalar, kind.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, source, kind)
        nearest = torch.from_numpy(np.ascontiguousarray(source.data)).bfloat16()
        return TensorHandle(nearest.view(torch.uint16).numpy(), tl.bfloat16)

    def widened(self, left, right, total, *options):
        operands = (cast(self, one, tl.float32) if one.dtype.scalar == tl.bfloat16 else one for one in (left, right))
        return dot(self, *operands, total, *options)

    InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot = rounded, widened


interpreted_only = pytest.mark.skipif(not INTERPRETED, reason="blocks so small exist in the interpreter alone")

if INTERPRETED:
    from helpers import gluon_interpreter

    repair_interpreter()
    gluon_interpreter.import_kernels()
else:  # plain convolutions in float32 are what kernels are compared with
    torch.backends.cudnn.allow_tf32 = False
