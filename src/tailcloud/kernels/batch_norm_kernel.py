"""Triton kernels of batch norm with ReLU6 or a shortcut after it, on maps [pixel, channel].

y = relu6(w·x̂ + b) or w·x̂ + b + shortcut, with x̂ = (x − μ) / √(σ² + e); μ and σ² are of the batch or frozen. What the
backward pass needs of y is computed again from x.

Statistics and gradients are sums over all pixels. A program adds up a share of the pixels, for a group of channels; the
last program of a group, found by an atomic counter, adds the shares in a fixed order. No number is added atomically,
so the bits are the same every time.
"""

import triton
import triton.language as tl

from tailcloud.kernels.convolution import _is_last

FOLD = tl.constexpr(4)  # pixels of a block that a thread adds up at once; their loads are on their way together
SIZES = ["pixels", "pixels_each", "eighths"]  # kernels are not compiled anew for special values of these


@triton.jit
def _group_of_channels(eighths, CHANNELS: tl.constexpr):
    """The number of channels, those of this program, and the number of its pixel block or share among its group."""
    C = eighths * 8  # so that the compiler knows that every pixel begins at a multiple of 16 bytes
    groups = tl.cdiv(C, CHANNELS)
    return C, tl.program_id(0) % groups * CHANNELS + tl.arange(0, CHANNELS), tl.program_id(0) // groups


@triton.jit
def _block(start, end, C, channel, PIXELS: tl.constexpr):
    """Where some pixels are in memory, from ``start`` on, and which of their numbers exist."""
    pixel = tl.arange(0, PIXELS)
    place = tl.cast(start, tl.int64) * C + (pixel[:, None] * C + channel[None, :])
    return place, (pixel < end - start)[:, None] & (channel < C)[None, :]


@triton.jit
def _partials(partial, first, shares, C, channel, PIXELS: tl.constexpr):
    """Some rows of the partial results [shares, 2, C], zeros past their end; ``part`` are their numbers."""
    part = first + tl.arange(0, PIXELS)
    inside = (part < shares)[:, None] & (channel < C)[None, :]
    place = partial + part[:, None] * (2 * C) + channel[None, :]
    # ".cg": from the cache that all programs share; the L1 cache may hold old values
    one = tl.load(place, inside, 0.0, cache_modifier=".cg")
    return part, inside, one, tl.load(place + C, inside, 0.0, cache_modifier=".cg")


@triton.jit
def _zeros(PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    """A folded block to begin a sum with."""
    return tl.zeros((PIXELS // FOLD, CHANNELS), tl.float32)


@triton.jit
def _folded(block):
    """A block with each FOLD of its rows added up: those that one thread has, at a distance."""
    return tl.sum(tl.reshape(block, (FOLD, block.shape[0] // FOLD, block.shape[1])), 0)


@triton.jit
def _norm(weight, bias, mean, variance, eps, C, channel):
    """Weight, bias, μ and 1 / √(σ² + e) of a program's channels."""
    real = channel < C
    w, b = tl.load(weight + channel, real, 0.0), tl.load(bias + channel, real, 0.0)
    return w, b, tl.load(mean + channel, real, 0.0), 1 / tl.sqrt(tl.load(variance + channel, real, 1.0) + eps)


@triton.jit
def _through_relu6(gradient, centred, w, b, rstd, RELU6: tl.constexpr):
    """The gradient of the norm's output: zero where ReLU6 is flat."""
    result = gradient
    if RELU6:
        output = centred * (w * rstd)[None, :] + b[None, :]
        result = tl.where((output <= 0.0) | (output >= 6.0), 0.0, gradient)
    return result


@triton.jit(do_not_specialize=SIZES)
def add_moments(
    maps, partial, counters, running_mean, running_var, tracked, mean, variance,
    pixels, pixels_each, eighths, momentum, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """μ and σ² of each channel, and the running statistics, whose variance is unbiased.

    A share adds up distances from its first pixel, so that large means cost no digits. Its mean and its squared
    deviations from that are its partial result, and are combined in the same way, from the first share's mean on.
    """
    C, channel, share = _group_of_channels(eighths, CHANNELS)
    real, shares = channel < C, tl.cdiv(pixels, pixels_each)
    first, end = share * pixels_each, tl.minimum((share + 1) * pixels_each, pixels)
    origin = tl.load(maps + first.to(tl.int64) * C + channel, real, 0.0)
    total, squares = _zeros(PIXELS, CHANNELS), _zeros(PIXELS, CHANNELS)
    for start in range(first, end, PIXELS):
        place, inside = _block(start, end, C, channel, PIXELS)
        away = tl.load(maps + place, inside, origin[None, :]).to(tl.float32) - origin.to(tl.float32)[None, :]
        total += _folded(away)
        squares += _folded(away * away)
    count, sums = (end - first).to(tl.float32), tl.sum(total, 0)
    own = partial + share * (2 * C) + channel
    tl.store(own, origin.to(tl.float32) + sums / count, real)
    tl.store(own + C, tl.sum(squares, 0) - sums * sums / count, real)
    if _is_last(counters + tl.program_id(0) % tl.cdiv(C, CHANNELS), shares, "acq_rel"):
        base = tl.load(partial + channel, real, 0.0, cache_modifier=".cg")
        total, squares = _zeros(PIXELS, CHANNELS), _zeros(PIXELS, CHANNELS)
        for start in range(0, shares, PIXELS):
            part, inside, center, spread = _partials(partial, start, shares, C, channel, PIXELS)
            counts = tl.minimum(pixels - part * pixels_each, pixels_each).to(tl.float32)[:, None]
            away = tl.where(inside, center - base[None, :], 0.0)
            total += _folded(counts * away)
            squares += _folded(spread + counts * away * away)
        away = tl.sum(total, 0) / pixels
        centered = tl.sum(squares, 0) / pixels - away * away
        _finish_moments(
            running_mean, running_var, tracked, mean, variance, base + away,
            tl.maximum(centered, 0.0, propagate_nan=tl.PropagateNan.ALL), pixels, momentum, channel, real,
        )  # fmt: skip


@triton.jit
def _finish_moments(
    running_mean, running_var, tracked, mean, variance, new_mean, new_variance, pixels, momentum, channel, real
):
    """Store μ and σ², and move the running statistics towards them."""
    tl.store(mean + channel, new_mean, real)
    tl.store(variance + channel, new_variance, real)
    old = tl.load(running_mean + channel, real, 0.0)
    tl.store(running_mean + channel, old + momentum * (new_mean - old), real)
    unbiased, old = new_variance * (pixels / (pixels - 1.0)), tl.load(running_var + channel, real, 0.0)
    tl.store(running_var + channel, old + momentum * (unbiased - old), real)
    if tl.min(channel, 0) == 0:
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit(do_not_specialize=SIZES)
def normalise(
    maps, shortcut, result, weight, bias, mean, variance, pixels, eighths, eps,
    RELU6: tl.constexpr, SHORTCUT: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """y of some pixels and channels."""
    C, channel, block = _group_of_channels(eighths, CHANNELS)
    w, b, center, rstd = _norm(weight, bias, mean, variance, eps, C, channel)
    place, inside = _block(block * PIXELS, pixels, C, channel, PIXELS)
    centred = tl.load(maps + place, inside, 0.0).to(tl.float32) - center[None, :]
    output = centred * (w * rstd)[None, :] + b[None, :]
    if RELU6:
        output = tl.maximum(output, 0.0, propagate_nan=tl.PropagateNan.ALL)
        output = tl.minimum(output, 6.0, propagate_nan=tl.PropagateNan.ALL)
    if SHORTCUT:
        output += tl.load(shortcut + place, inside, 0.0).to(tl.float32)
    tl.store(result + place, output.to(result.dtype.element_ty), inside)


@triton.jit(do_not_specialize=SIZES)
def add_gradients(
    maps, partial, counters, gradient, by_weight, by_bias, weight, bias, mean, variance,
    pixels, pixels_each, eighths, eps, RELU6: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradients of weight and bias: Σ g·x̂ and Σ g, with the gradient g of the norm's output."""
    C, channel, share = _group_of_channels(eighths, CHANNELS)
    real, shares = channel < C, tl.cdiv(pixels, pixels_each)
    first, end = share * pixels_each, tl.minimum((share + 1) * pixels_each, pixels)
    w, b, center, rstd = _norm(weight, bias, mean, variance, eps, C, channel)
    total, products = _zeros(PIXELS, CHANNELS), _zeros(PIXELS, CHANNELS)
    for start in range(first, end, PIXELS):
        place, inside = _block(start, end, C, channel, PIXELS)
        centred = tl.load(maps + place, inside, 0.0).to(tl.float32) - center[None, :]
        slope = tl.load(gradient + place, inside, 0.0).to(tl.float32)
        slope = _through_relu6(slope, centred, w, b, rstd, RELU6)
        total += _folded(slope)
        products += _folded(slope * centred)
    own = partial + share * (2 * C) + channel
    tl.store(own, tl.sum(total, 0), real)
    tl.store(own + C, tl.sum(products, 0) * rstd, real)
    if _is_last(counters + tl.program_id(0) % tl.cdiv(C, CHANNELS), shares, "acq_rel"):
        total, products = _zeros(PIXELS, CHANNELS), _zeros(PIXELS, CHANNELS)
        for start in range(0, shares, PIXELS):
            _, _, one, other = _partials(partial, start, shares, C, channel, PIXELS)
            total += _folded(one)
            products += _folded(other)
        tl.store(by_bias + channel, tl.sum(total, 0), real)
        tl.store(by_weight + channel, tl.sum(products, 0), real)


@triton.jit(do_not_specialize=SIZES)
def input_gradients(
    maps, gradient, result, by_weight, by_bias, weight, bias, mean, variance, pixels, eighths, eps,
    RELU6: tl.constexpr, MOVING: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient of x: w / √(σ² + e) · (g − mean(g) − x̂·mean(g·x̂)), or without the means if statistics are frozen."""
    C, channel, block = _group_of_channels(eighths, CHANNELS)
    w, b, center, rstd = _norm(weight, bias, mean, variance, eps, C, channel)
    place, inside = _block(block * PIXELS, pixels, C, channel, PIXELS)
    centred = tl.load(maps + place, inside, 0.0).to(tl.float32) - center[None, :]
    slope = tl.load(gradient + place, inside, 0.0).to(tl.float32)
    slope = _through_relu6(slope, centred, w, b, rstd, RELU6)
    if MOVING:
        real = channel < C
        slope -= (tl.load(by_bias + channel, real, 0.0) / pixels)[None, :]
        slope -= centred * (tl.load(by_weight + channel, real, 0.0) * rstd / pixels)[None, :]
    tl.store(result + place, (slope * (w * rstd)[None, :]).to(result.dtype.element_ty), inside)
