"""Kernels that compile in a tenth of a second, and one that does not compile."""

import triton
import triton.language as tl


@triton.jit
def double(values, BLOCK: tl.constexpr):
    """Twice each value."""
    place = values + tl.arange(0, BLOCK)
    tl.store(place, 2 * tl.load(place))


@triton.jit
def impossible(values, BLOCK: tl.constexpr):
    """What no compiler can do."""
    tl.static_assert(BLOCK < 0, "no such luck")
