"""Triton kernels of a depthwise convolution: the output, and the gradients of input and weights.

Maps are [image, row, column, channel]; weights are [tap, channel].
"""

import triton
import triton.language as tl

SIZES = ["OH", "OW", "H", "W", "top", "left"]  # kernels are not compiled anew for special values of these


@triton.jit(do_not_specialize=SIZES)
def filter_maps(
    maps, weight, result, OH, OW, H, W, C, top, left,
    K: tl.constexpr, S: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some pixels of an output row: y[h, w, c] = Σ_ij x[S·h + i − top, S·w + j − left, c] · k[c, i, j]."""
    line, channel = tl.program_id(0), tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    image, row = (line // OH).to(tl.int64), line % OH
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    for i in tl.static_range(K):
        source = row * S + i - top
        for j in tl.static_range(K):
            across = column * S + j - left
            inside = (source >= 0) & (source < H) & (across >= 0) & (across < W) & (column < OW)
            place = maps + ((image * H + source) * W + across[:, None]) * C + channel[None, :]
            value = tl.load(place, inside[:, None] & (channel < C)[None, :], 0.0).to(tl.float32)
            total += value * tl.load(weight + (i * K + j) * C + channel, channel < C, 0.0)[None, :]
    place = result + ((image * OH + row) * OW + column[:, None]) * C + channel[None, :]
    tl.store(place, total.to(result.dtype.element_ty), (column < OW)[:, None] & (channel < C)[None, :])


@triton.jit(do_not_specialize=SIZES)
def filter_gradients(
    gradient, weight, result, OH, OW, H, W, C, top, left,
    K: tl.constexpr, S: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some pixels of a row of the input's gradient: each adds up the outputs that it was part of."""
    line, channel = tl.program_id(0), tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    image, row = (line // H).to(tl.int64), line % H
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    for i in tl.static_range(K):
        down = row + top - i
        for j in tl.static_range(K):
            across = column + left - j
            inside = (down >= 0) & (down % S == 0) & (down // S < OH) & (column < W)
            inside = inside & (across >= 0) & (across % S == 0) & (across // S < OW)
            place = gradient + ((image * OH + down // S) * OW + across[:, None] // S) * C + channel[None, :]
            value = tl.load(place, inside[:, None] & (channel < C)[None, :], 0.0).to(tl.float32)
            total += value * tl.load(weight + (i * K + j) * C + channel, channel < C, 0.0)[None, :]
    place = result + ((image * H + row) * W + column[:, None]) * C + channel[None, :]
    tl.store(place, total.to(result.dtype.element_ty), (column < W)[:, None] & (channel < C)[None, :])


@triton.jit(do_not_specialize=[*SIZES, "lines", "lines_each"])
def add_weight_gradients(
    maps, gradient, sums, lines, lines_each, OH, OW, H, W, C, top, left,
    K: tl.constexpr, TAPS: tl.constexpr, S: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The sum over some output rows, for one row of taps; ``TAPS`` is the power of two from ``K`` on."""
    i, share, tap = tl.program_id(0), tl.program_id(2), tl.arange(0, TAPS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    total = tl.zeros((TAPS, COLUMNS, CHANNELS), tl.float32)  # added up once, at the end
    for line in range(share * lines_each, tl.minimum((share + 1) * lines_each, lines)):
        image, row = line // OH, line % OH
        source = row * S + i - top
        for first in range(0, OW, COLUMNS):
            column = first + tl.arange(0, COLUMNS)
            seen = (column < OW)[:, None] & (channel < C)[None, :]
            place = gradient + ((image.to(tl.int64) * OH + row) * OW + column[:, None]) * C + channel[None, :]
            slope = tl.load(place, seen, 0.0).to(tl.float32)
            across = column[None, :] * S + tap[:, None] - left
            inside = (source >= 0) & (source < H) & (across >= 0) & (across < W) & (tap < K)[:, None]
            place = maps + ((image.to(tl.int64) * H + source) * W + across[:, :, None]) * C + channel[None, None, :]
            value = tl.load(place, inside[:, :, None] & seen[None, :, :], 0.0).to(tl.float32)
            total += value * slope[None, :, :]
    place = sums + ((share * K + i) * TAPS + tap[:, None]) * C + channel[None, :]
    tl.store(place, tl.sum(total, axis=1), (channel < C)[None, :])
