"""Modified Bessel functions of the first kind, for von Mises–Fisher distributions."""

from typing import Any

import torch
from torch import Tensor

MORE_ORDERS = 64  # above the wanted one, where the recurrence starts: errors below 1e-8 at any argument


class LogBessel(torch.autograd.Function):
    """log (I_ν(x) / x^ν) as a function of x² [any shape, float64], for a whole ν. Device code of fixed shapes.

    It is finite at x = 0. Its derivative by x is I_{ν+1}(x) / I_ν(x), by x² that over 2x.
    """

    @staticmethod
    def forward(ctx: Any, square: Tensor, order: int) -> Tensor:
        """The value."""
        value, ratio = log_bessel(square, order)
        ctx.save_for_backward(ratio / 2)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient by x²."""
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None


def log_bessel(square: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """log (I_ν(x) / x^ν) and I_{ν+1}(x) / (x · I_ν(x)), given x² in float64 and ν = ``order``.

    Miller's backward recurrence of I_{n−1} = I_{n+1} + 2n/x · I_n, for q_n = I_{n+1} / (x · I_n), which neither
    overflows nor divides by x: q_{n−1} = 1 / (2n + x² q_n). It starts at a higher order with an approximation that is
    exact to two terms for large x (after the bounds of Amos, Math. Comp. 28, 1974). I_ν / x^ν = I_0 · q_0 ⋯ q_{ν−1}.
    """
    top = order + MORE_ORDERS
    ratio = 1 / (top + 0.5 + ((top + 0.5) * (top + 1.5) + square).sqrt())
    for n in range(top, order, -1):
        ratio = 1 / (2 * n + square * ratio)
    wanted, x = ratio, square.sqrt()
    value = x + torch.special.i0e(x).log()
    for n in range(order, 0, -1):
        ratio = 1 / (2 * n + square * ratio)
        value = value + ratio.log()
    return value, wanted
