"""Two kernels of ``convolution`` in Gluon, Triton's lower dialect: operands go straight into registers.

``tl.dot`` takes operands through shared memory: for each tap a number is loaded, stored and loaded again, between two
barriers. Here every thread loads just what its tensor core's instruction wants of it. The product is transposed,
[output channel, pixel]: eight adjacent pixels are the columns of an instruction, and a thread's share of one pixel is
adjacent channels. A warp has the same columns in several rows, so it loads a pixel once for three rows of taps (the
compiler sees that the addresses are the same). What is added, and where it is rounded, is as in ``convolution``.

Only for stride 1. Weights are [tap, output, input].
"""

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from tailcloud.kernels.convolution import (
    RUNTIME,
    _activation,
    _affine,
    _after_the_kernel_before,
    _bordered,
    _finish_backward,
    _finish_forward,
    _normed_back,
    _source,
    _store_sums,
)

gl = gluon.language


@gluon.jit
def _place(number, R: tl.constexpr, BW: tl.constexpr, AT_ONCE: tl.constexpr):
    """Row and column of the pixels in the order of a product, AT_ONCE of which are one instruction of all warps."""
    if BW >= AT_ONCE:
        row, column = number // BW, number % BW
    else:  # warps share the rows of a tile, so that each has adjacent rows
        times: tl.constexpr = R * BW // AT_ONCE
        row = number % AT_ONCE // BW * times + number // AT_ONCE
        column = number % BW
    return row, column


@gluon.jit
def _convolved(
    home, weight, across: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr, R: tl.constexpr, BW: tl.constexpr,
    layout: tl.constexpr, AT_ONCE: tl.constexpr, CONTIGUOUS: tl.constexpr,
):  # fmt: skip
    """Nine taps on a bordered tile of R rows: [BO, pixels] in float32, in the layout of tensor cores."""
    left: tl.constexpr = gl.DotOperandLayout(0, layout, CONTIGUOUS)
    right: tl.constexpr = gl.DotOperandLayout(1, layout, CONTIGUOUS)
    output = gl.arange(0, BO, gl.SliceLayout(1, left))
    taps = weight + output[:, None] * BI + gl.arange(0, BI, gl.SliceLayout(0, left))[None, :]
    row, column = _place(gl.arange(0, R * BW, gl.SliceLayout(0, right)), R, BW, AT_ONCE)
    corner = home + (row * across + column)[None, :] * BI + gl.arange(0, BI, gl.SliceLayout(1, right))[:, None]
    total = gl.zeros([BO, R * BW], gl.float32, layout)
    for step in gl.static_range(9):
        seen = gl.load(corner + (step // 3 * across + step % 3) * BI)
        total = mma_v2(gl.load(taps + step * (BI * BO)), seen, total, input_precision="ieee")
    return total


@gluon.jit(do_not_specialize=RUNTIME)
def convolve(
    raw, shortcut, kept, weight, result,
    affine_in, gamma_in, beta_in, mean_in, var_in, saved_in,
    affine, gamma, beta, running_mean, running_var, saved, tracked, partial, counter,
    images, eps, momentum,
    H: tl.constexpr, W: tl.constexpr, S: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,  # noqa: ARG001
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, BP: tl.constexpr,
    NORM: tl.constexpr, MOVING: tl.constexpr, SHORTCUT: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, SC: tl.constexpr, SBC: tl.constexpr, SR: tl.constexpr,
    BWI: tl.constexpr, BWO: tl.constexpr, EARLY: tl.constexpr,
    CHANNEL_WARPS: tl.constexpr, CONTIGUOUS: tl.constexpr,
):  # fmt: skip
    """``convolution.convolve`` with stride 1."""
    _after_the_kernel_before(EARLY)
    tiles: tl.constexpr = (H + R - 1) // R
    inputs: tl.constexpr = gl.BlockedLayout([1, 8], [256 // BCI, BCI // 8], [gl.num_warps(), 1], [1, 0])
    outputs: tl.constexpr = gl.BlockedLayout([1, 8], [256 // BCO, BCO // 8], [gl.num_warps(), 1], [1, 0])
    image, first = gl.program_id(0) // tiles, gl.program_id(0) % tiles * R
    ci = gl.arange(0, BCI, gl.SliceLayout(0, inputs))
    own = gl.arange(0, R * BWI, gl.SliceLayout(1, inputs))
    row, column = first + own // BWI, own % BWI
    inside = (row < H) & (column < W)
    value, extra = _source(
        raw, shortcut, image, row, column, inside, ci, H, W, CI, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    border = gl.arange(0, 2 * BWI, gl.SliceLayout(1, inputs))
    row_b, column_b = first - 1 + border // BWI * (R + 1), border % BWI
    inside_b = (row_b >= 0) & (row_b < H) & (column_b < W)
    value_b, extra_b = _source(
        raw, shortcut, image, row_b, column_b, inside_b, ci, H, W, CI, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    scale, shift = 0.0, 0.0
    if NORM:
        scale, shift = _affine(affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps, ci, CI, MOVING)
    home = kept + gl.program_id(0) * ((R + 2) * (W + 2) * BCI)
    place = home + ((own // BWI + 1) * (W + 2) + column + 1)[:, None] * BCI + ci[None, :]
    gl.store(place, _activation(value, extra, scale, shift, NORM, SHORTCUT), inside[:, None] & (ci < CI)[None, :])
    place = home + (border // BWI * (R + 1) * (W + 2) + column_b + 1)[:, None] * BCI + ci[None, :]
    gl.store(place, _activation(value_b, extra_b, scale, shift, NORM, SHORTCUT), inside_b[:, None] & (ci < CI)[None, :])
    tl.debug_barrier()
    pixel_warps: tl.constexpr = gl.num_warps() // CHANNEL_WARPS
    at_once: tl.constexpr = 8 * pixel_warps
    layout: tl.constexpr = gl.NVMMADistributedLayout([2, 0], [CHANNEL_WARPS, pixel_warps], [16, 8])
    total = _convolved(home, weight, W + 2, BCI, BCO, R, BWO, layout, at_once, CONTIGUOUS)
    rounded = total.to(result.dtype.element_ty)
    co = gl.arange(0, BCO, gl.SliceLayout(0, outputs))
    row, column = _place(gl.arange(0, R * BWO, gl.SliceLayout(1, outputs)), R, BWO, at_once)
    place = result + ((image * H + first + row) * W + column)[:, None] * CO + co[None, :]
    valid = ((first + row < H) & (column < W))[:, None] & (co < CO)[None, :]
    gl.store(place, gl.convert_layout(gl.permute(rounded, (1, 0)), outputs), valid)
    if MOVING:
        row, column = _place(gl.arange(0, R * BWO, gl.SliceLayout(0, layout)), R, BWO, at_once)
        inside = (first + row < H) & (column < W)
        _store_moments(partial, rounded.to(gl.float32), inside, gl.arange(0, BCO, gl.SliceLayout(1, layout)), CO)
        _finish_forward(
            partial, counter, gamma, beta, running_mean, running_var, tracked, saved, affine, images * (H * W),
            eps, momentum, gl.arange(0, BP, gl.SliceLayout(1, outputs)), co, CO, BP, H, W, R,
        )  # fmt: skip


@gluon.jit
def _store_moments(partial, value, inside, channel, C: tl.constexpr):
    """This program's part of the statistics of [channel, pixel]: the sum, and the squares around its own mean."""
    count = gl.sum(inside.to(gl.float32), 0)
    total = gl.sum(gl.where(inside[None, :], value, 0.0), 1)
    away = gl.where(inside[None, :], value - (total / count)[:, None], 0.0)
    place = partial + gl.program_id(0) * 2 * C + channel
    gl.store(place, total, channel < C)
    gl.store(place + C, gl.sum(away * away, 1), channel < C)


@gluon.jit(do_not_specialize=RUNTIME)
def convolve_back(
    gradient, raw, bordered, weight, coefficients_in,
    skipped, kept, raw_below, result, gamma, saved, sums, coefficients, partial, counter, images,
    H: tl.constexpr, W: tl.constexpr, S: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,  # noqa: ARG001
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, BP: tl.constexpr,
    MOVING: tl.constexpr, SKIP: tl.constexpr, LAST: tl.constexpr, OPEN: tl.constexpr,  # noqa: ARG001
    BWI: tl.constexpr, BWO: tl.constexpr,
    EARLY: tl.constexpr, CHANNEL_WARPS: tl.constexpr, CONTIGUOUS: tl.constexpr,
):  # fmt: skip
    """``convolution.convolve_back`` with stride 1, and not LAST."""
    _after_the_kernel_before(EARLY)
    tiles: tl.constexpr = (H + R - 1) // R
    inputs: tl.constexpr = gl.BlockedLayout([1, 8], [256 // BCI, BCI // 8], [gl.num_warps(), 1], [1, 0])
    outputs: tl.constexpr = gl.BlockedLayout([1, 8], [256 // BCO, BCO // 8], [gl.num_warps(), 1], [1, 0])
    image, first = gl.program_id(0) // tiles, gl.program_id(0) % tiles * R
    co = gl.arange(0, BCO, gl.SliceLayout(0, outputs))
    own = gl.arange(0, R * BWO, gl.SliceLayout(1, outputs))
    row_o, column_o = own // BWO, own % BWO
    valid_o = ((first + row_o < H) & (column_o < W))[:, None] & (co < CO)[None, :]
    place_o = ((image * H + first + row_o) * W + column_o)[:, None] * CO + co[None, :]
    slope, value = gl.load(gradient + place_o, valid_o, 0.0), gl.load(raw + place_o, valid_o, 0.0)
    border = gl.arange(0, 2 * BWO, gl.SliceLayout(1, outputs))
    row_b, column_b = border // BWO * (R + 1) - 1, border % BWO
    valid_b = ((first + row_b >= 0) & (first + row_b < H) & (column_b < W))[:, None] & (co < CO)[None, :]
    place_b = ((image * H + first + row_b) * W + column_b)[:, None] * CO + co[None, :]
    slope_b, value_b = gl.load(gradient + place_b, valid_b, 0.0), gl.load(raw + place_b, valid_b, 0.0)
    a = gl.load(coefficients_in + co, co < CO, 0.0)
    b = gl.load(coefficients_in + CO + co, co < CO, 0.0)
    c = gl.load(coefficients_in + 2 * CO + co, co < CO, 0.0)
    home = bordered + gl.program_id(0) * ((R + 2) * (W + 2) * BCO)
    place_o = home + ((row_o + 1) * (W + 2) + column_o + 1)[:, None] * BCO + co[None, :]
    gl.store(place_o, _normed_back(slope, value, a, b, c), valid_o)
    place_b = home + ((row_b + 1) * (W + 2) + column_b + 1)[:, None] * BCO + co[None, :]
    gl.store(place_b, _normed_back(slope_b, value_b, a, b, c), valid_b)
    tl.debug_barrier()
    ci = gl.arange(0, BCI, gl.SliceLayout(0, inputs))
    pixel_warps: tl.constexpr = gl.num_warps() // CHANNEL_WARPS
    at_once: tl.constexpr = 8 * pixel_warps
    layout: tl.constexpr = gl.NVMMADistributedLayout([2, 0], [CHANNEL_WARPS, pixel_warps], [16, 8])
    row, column = _place(gl.arange(0, R * BWI, gl.SliceLayout(1, inputs)), R, BWI, at_once)
    place = ((image * H + first + row) * W + column)[:, None] * CI + ci[None, :]
    valid = ((first + row < H) & (column < W))[:, None] & (ci < CI)[None, :]
    if not OPEN:
        mine = _bordered(image, first + row, column, H, W, R)[:, None] * BCI + ci[None, :]
        alive = gl.load(kept + mine, valid, 0.0) > 0
        below = gl.load(raw_below + place, valid, 0.0)
    total = _convolved(home, weight, W + 2, BCO, BCI, R, BWI, layout, at_once, CONTIGUOUS)
    total = gl.convert_layout(gl.permute(total, (1, 0)), inputs)
    if SKIP == 1:
        total += gl.load(skipped + place, valid, 0.0).to(gl.float32)
    if OPEN:
        gl.store(result + place, total.to(result.dtype.element_ty), valid)
    else:
        rounded = gl.where(alive, total, 0.0).to(result.dtype.element_ty)
        gl.store(result + place, rounded, valid)
        _store_sums(partial, rounded.to(gl.float32), below, saved, valid, CI, ci)
        part = gl.arange(0, BP, gl.SliceLayout(1, inputs))
        _finish_backward(
            partial, counter, gamma, saved, sums, coefficients, images * (H * W), part, ci, CI, BP, MOVING
        )  # fmt: skip
