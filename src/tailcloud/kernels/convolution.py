"""Triton kernels of a residual network with batch norm: one kernel per convolution and pass.

Convolution l turns the activation A[l] into Y[l]; batch norm, shortcut and ReLU turn Y[l] into A[l + 1]. Each kernel
also does the element-wise work before and after its convolution:

    forward     A[l] = relu(bn(Y[l−1]) + shortcut) is made first; then Y[l] and its statistics
    backward    gY[l] is made first from gZ[l], the gradient of bn(Y[l]); then gZ[l−1] and its sums

A program works on a tile: ``R`` rows of one output map. Y and gZ are stored as [image, row, column, channel]; A and gY
as [tile, row, column, channel] with a border of one pixel around each tile. So a program writes everything that its
nine taps read (also rows of adjacent tiles, and zeros outside of the image) and reads it without bounds checks.

Statistics and sums are written as one partial result per program. Of each group of ``BP`` programs the last one, found
by an atomic counter, adds those of its group; the last one of all adds those of the groups; each in a fixed order. No
number is added atomically, so the bits are the same every time. 64 images of 32 × 32 pixels are one group.
"""

import triton
import triton.language as tl

RUNTIME = ["images"]  # changes from batch to batch and must not cause a recompilation


@triton.jit
def _after_the_kernel_before(EARLY: tl.constexpr):
    """EARLY: this kernel was started while the one before it ended; wait for that. The next one may start then."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def _is_last(counter, programs, ORDER: tl.constexpr):
    """Whether this program is the last of so many that count here; all others have written their partial results."""
    tl.debug_barrier()
    before = tl.atomic_add(counter, 1, sem=ORDER)
    last = before == programs - 1
    if last:
        tl.store(counter, 0)
    return last


@triton.jit
def _group_of_programs(BP: tl.constexpr):
    """The group of this program, how many programs it has, and the number of groups."""
    group, programs = tl.program_id(0) // BP, tl.num_programs(0)
    return group, tl.minimum(programs - group * BP, BP), (programs + BP - 1) // BP


@triton.jit
def _rows(partial, number, rows, step, channel, C: tl.constexpr):
    """Two numbers of each channel in some rows of partial results, zeros past their end, and which rows are real."""
    inside = (number < rows)[:, None] & (channel < C)[None, :]
    place = partial + number[:, None] * step + channel[None, :]
    # ".cg": from the cache that all programs share; the L1 cache may hold old values
    first = tl.load(place, inside, 0.0, cache_modifier=".cg")
    return first, tl.load(place + C, inside, 0.0, cache_modifier=".cg"), inside


@triton.jit
def _squares(total, spread, count, inside, mean):
    """Squared deviations from a common mean, from sums of so many pixels each and deviations from their own mean."""
    away = total / count - mean[None, :]
    return tl.sum(tl.where(inside, spread + count * away * away, 0.0), 0)


@triton.jit
def _finish_forward(
    partial, counter, gamma, beta, running_mean, running_var, tracked, saved, affine, pixels, eps, momentum,
    part, channel, C: tl.constexpr, BP: tl.constexpr, H: tl.constexpr, W: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Batch norm from the tiles' partial results: (sum, squared deviations from the own mean), combined exactly.

    ``part`` counts to BP, ``channel`` to the block that holds all C.
    """
    group, size, groups = _group_of_programs(BP)
    if _is_last(counter + 1 + group, size, "release"):
        programs = tl.num_programs(0)
        number = group * BP + part
        total, spread, inside = _rows(partial, number, programs, 2 * C, channel, C)
        # everything is read before anything is added: nobody else works now, and each wait counts
        weight, bias = tl.load(gamma + channel, channel < C, 0.0), tl.load(beta + channel, channel < C, 0.0)
        old_mean = tl.load(running_mean + channel, channel < C, 0.0)
        old_var = tl.load(running_var + channel, channel < C, 0.0)
        count = (tl.minimum(H - number % ((H + R - 1) // R) * R, R) * W).to(tl.float32)
        counted = tl.sum(tl.where(number < programs, count, 0.0), 0)
        sums = tl.sum(total, 0)
        squares = _squares(total, spread, count[:, None], inside, sums / counted)
        if groups == 1:
            _store_norm(
                weight, bias, old_mean, old_var, running_mean, running_var, tracked, saved, affine, pixels, eps,
                momentum, sums / pixels, squares / pixels, channel, C,
            )  # fmt: skip
        else:
            home = partial + programs * (2 * C)
            own = home + group * (3 * C) + channel
            tl.store(own, sums, channel < C)
            tl.store(own + C, squares, channel < C)
            tl.store(own + 2 * C, sums * 0 + counted, channel < C)
            if _is_last(counter, groups, "release"):
                _combine_groups(
                    home, groups, weight, bias, old_mean, old_var, running_mean, running_var, tracked, saved, affine,
                    pixels, eps, momentum, part, channel, C, BP,
                )  # fmt: skip


@triton.jit
def _combine_groups(
    home, groups, weight, bias, old_mean, old_var, running_mean, running_var, tracked, saved, affine, pixels, eps,
    momentum, part, channel, C: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Batch norm from the groups' partial results: (sum, squared deviations from the own mean, pixels)."""
    total, _, _ = _rows(home, part, groups, 3 * C, channel, C)
    sums = tl.sum(total, 0)
    for start in range(BP, groups, BP):
        more, _, _ = _rows(home, start + part, groups, 3 * C, channel, C)
        sums += tl.sum(more, 0)
    mean = sums / pixels
    squares = mean * 0
    for start in range(0, groups, BP):
        total, spread, inside = _rows(home, start + part, groups, 3 * C, channel, C)
        place = home + (start + part)[:, None] * (3 * C) + 2 * C + channel[None, :]
        squares += _squares(total, spread, tl.load(place, inside, 1.0, cache_modifier=".cg"), inside, mean)
    _store_norm(
        weight, bias, old_mean, old_var, running_mean, running_var, tracked, saved, affine, pixels, eps, momentum,
        mean, squares / pixels, channel, C,
    )  # fmt: skip


@triton.jit
def _store_norm(
    weight, bias, old_mean, old_var, running_mean, running_var, tracked, saved, affine, pixels, eps, momentum,
    mean, variance, channel, C: tl.constexpr,
):  # fmt: skip
    """Scale and shift of a batch norm from mean and variance, and the running statistics."""
    inside = channel < C
    rstd = 1 / tl.sqrt(variance + eps)
    tl.store(affine + channel, weight * rstd, inside)
    tl.store(affine + C + channel, bias - mean * weight * rstd, inside)
    tl.store(saved + channel, mean, inside)
    tl.store(saved + C + channel, rstd, inside)
    unbiased = variance * (pixels / tl.maximum(pixels - 1, 1).to(tl.float32))
    tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean), inside)
    tl.store(running_var + channel, old_var + momentum * (unbiased - old_var), inside)
    tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def _finish_backward(
    partial, counter, gamma, saved, sums, coefficients, pixels, part, channel,
    C: tl.constexpr, BP: tl.constexpr, MOVING: tl.constexpr,
):  # fmt: skip
    """The gradients of β and γ, and the constants of gY = a·gZ + b·Y + c."""
    group, size, groups = _group_of_programs(BP)
    if _is_last(counter + 1 + group, size, "release"):
        programs = tl.num_programs(0)
        one, two, _ = _rows(partial, group * BP + part, programs, 2 * C, channel, C)
        mean, rstd = tl.load(saved + channel, channel < C, 0.0), tl.load(saved + C + channel, channel < C, 0.0)
        a = tl.load(gamma + channel, channel < C, 0.0) * rstd
        first, second = tl.sum(one, 0), tl.sum(two, 0)
        if groups == 1:
            _store_coefficients(a, mean, rstd, sums, coefficients, pixels, first, second, channel, C, MOVING)
        else:
            home = partial + programs * (2 * C)
            own = home + group * (2 * C) + channel
            tl.store(own, first, channel < C)
            tl.store(own + C, second, channel < C)
            if _is_last(counter, groups, "release"):
                one, two, _ = _rows(home, part, groups, 2 * C, channel, C)
                for start in range(BP, groups, BP):
                    more, mores, _ = _rows(home, start + part, groups, 2 * C, channel, C)
                    one += more
                    two += mores
                _store_coefficients(
                    a, mean, rstd, sums, coefficients, pixels, tl.sum(one, 0), tl.sum(two, 0), channel, C, MOVING
                )


@triton.jit
def _store_coefficients(
    a, mean, rstd, sums, coefficients, pixels, first, second, channel, C: tl.constexpr, MOVING: tl.constexpr
):
    """What ``_finish_backward`` finds, from Σ gZ and Σ gZ·ŷ."""
    inside = channel < C
    tl.store(sums + channel, first, inside)
    tl.store(sums + C + channel, second, inside)
    b = -a * rstd * second / pixels
    if not MOVING:
        b = a * 0
    c = -a * first / pixels - b * mean
    if not MOVING:
        c = a * 0
    tl.store(coefficients + channel, a, inside)
    tl.store(coefficients + C + channel, b, inside)
    tl.store(coefficients + 2 * C + channel, c, inside)


@triton.jit
def _affine(affine, gamma, beta, running_mean, running_var, saved, eps, channel, C: tl.constexpr, MOVING: tl.constexpr):
    """Scale and shift of a batch norm: of this batch, or of the running statistics."""
    inside = channel < C
    if MOVING:
        scale, shift = tl.load(affine + channel, inside, 0.0), tl.load(affine + C + channel, inside, 0.0)
    else:
        mean = tl.load(running_mean + channel, inside, 0.0)
        rstd = 1 / tl.sqrt(tl.load(running_var + channel, inside, 1.0) + eps)
        if tl.program_id(0) == 0:
            tl.store(saved + channel, mean, inside)
            tl.store(saved + C + channel, rstd, inside)
        scale = tl.load(gamma + channel, inside, 0.0) * rstd
        shift = tl.load(beta + channel, inside, 0.0) - mean * scale
    return scale, shift


@triton.jit
def _bordered(image, row, column, H: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    """The number of a pixel in tiles of R rows with borders."""
    tile = image * ((H + R - 1) // R) + row // R
    return (tile * (R + 2) + row % R + 1) * (W + 2) + column + 1


@triton.jit
def _source(
    raw, shortcut, image, row, column, inside, channels,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    SHORTCUT: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, SC: tl.constexpr, SBC: tl.constexpr, SR: tl.constexpr,
):  # fmt: skip
    """Raw map and shortcut of an activation, at some pixels [·, channels]."""
    channel = channels[None, :]
    valid = inside[:, None] & (channel < C)
    value = tl.load(raw + ((image * H + row) * W + column)[:, None] * C + channel, valid, 0.0)
    if SHORTCUT == 1:  # the same shape
        there = _bordered(image, row, column, SH, SW, SR)[:, None] * SBC + channel
        extra = tl.load(shortcut + there, valid, 0.0)
    elif SHORTCUT == 2:  # "option A": every second pixel of a larger map, zero channels on both sides
        source = channel - (C - SC) // 2
        there = _bordered(image, 2 * row, 2 * column, SH, SW, SR)[:, None] * SBC + source
        extra = tl.load(shortcut + there, valid & (source >= 0) & (source < SC), 0.0)
    else:
        extra = value
    return value, extra


@triton.jit
def _activation(value, extra, scale, shift, NORM: tl.constexpr, SHORTCUT: tl.constexpr):
    """relu(bn(value) + shortcut), rounded as it will be stored; without a norm the value itself."""
    result = value
    if NORM:
        total = value.to(tl.float32) * scale[None, :] + shift[None, :]
        if SHORTCUT:
            total += extra.to(tl.float32)
        result = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL).to(value.dtype)
    return result


@triton.jit(do_not_specialize=RUNTIME)
def convolve(
    raw, shortcut, kept, weight, result,
    affine_in, gamma_in, beta_in, mean_in, var_in, saved_in,
    affine, gamma, beta, running_mean, running_var, saved, tracked, partial, counter,
    images, eps, momentum,
    H: tl.constexpr, W: tl.constexpr, S: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, BP: tl.constexpr,
    NORM: tl.constexpr, MOVING: tl.constexpr, SHORTCUT: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, SC: tl.constexpr, SBC: tl.constexpr, SR: tl.constexpr,
    BWI: tl.constexpr, BWO: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Y[l] = conv3×3(A[l]) on a tile of R rows; A[l] is computed first, from the raw map and the norm before it."""
    _after_the_kernel_before(EARLY)
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    tiles: tl.constexpr = (HO + R - 1) // R
    image, first = tl.program_id(0) // tiles, tl.program_id(0) % tiles * R
    ci, co = tl.arange(0, BCI), tl.arange(0, BCO)
    own = tl.arange(0, R * S * BWI)
    row, column = first * S + own // BWI, own % BWI
    inside = (row < H) & (column < W)
    value, extra = _source(
        raw, shortcut, image, row, column, inside, ci, H, W, CI, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    border = tl.arange(0, 2 * BWI)
    row_b, column_b = first * S - 1 + border // BWI * (R * S + 1), border % BWI
    inside_b = (row_b >= 0) & (row_b < H) & (column_b < W)
    value_b, extra_b = _source(
        raw, shortcut, image, row_b, column_b, inside_b, ci, H, W, CI, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    scale, shift = 0.0, 0.0
    if NORM:
        scale, shift = _affine(affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps, ci, CI, MOVING)
    home = kept + tl.program_id(0) * ((R * S + 2) * (W + 2) * BCI)
    place = home + ((own // BWI + 1) * (W + 2) + column + 1)[:, None] * BCI + ci[None, :]
    tl.store(place, _activation(value, extra, scale, shift, NORM, SHORTCUT), inside[:, None] & (ci[None, :] < CI))
    place = home + (border // BWI * (R * S + 1) * (W + 2) + column_b + 1)[:, None] * BCI + ci[None, :]
    tl.store(place, _activation(value_b, extra_b, scale, shift, NORM, SHORTCUT), inside_b[:, None] & (ci[None, :] < CI))
    tl.debug_barrier()
    pixel = tl.arange(0, R * BWO)
    row, column = pixel // BWO, pixel % BWO
    corner = home + (row * S * (W + 2) + column * S)[:, None] * BCI + ci[None, :]
    taps = weight + ci[:, None] * BCO + co[None, :]
    seen, factors = tl.load(corner), tl.load(taps)
    total = tl.zeros([R * BWO, BCO], tl.float32)
    for tap in range(1, 10):  # the next operands are read while these are multiplied; the last are not used
        next_seen = tl.load(corner + (tap // 3 * (W + 2) + tap % 3) * BCI)
        next_factors = tl.load(taps + tap * (BCI * BCO))
        total = tl.dot(seen, factors, total, input_precision="ieee")
        seen, factors = next_seen, next_factors
    rounded = total.to(result.dtype.element_ty)
    inside = (first + row < HO) & (column < WO)
    place = result + ((image * HO + first + row) * WO + column)[:, None] * CO + co[None, :]
    tl.store(place, rounded, inside[:, None] & (co[None, :] < CO))
    if MOVING:
        _store_moments(partial, rounded.to(tl.float32), inside, CO, co)
        _finish_forward(
            partial, counter, gamma, beta, running_mean, running_var, tracked, saved, affine, images * (HO * WO),
            eps, momentum, tl.arange(0, BP), co, CO, BP, HO, WO, R,
        )  # fmt: skip


@triton.jit
def _store_moments(partial, value, inside, C: tl.constexpr, channel):
    """This program's part of the statistics: the sum, and the squared deviations from its own mean."""
    count = tl.sum(inside.to(tl.float32), 0)
    total = tl.sum(tl.where(inside[:, None], value, 0.0), 0)
    away = tl.where(inside[:, None], value - (total / count)[None, :], 0.0)
    place = partial + tl.program_id(0) * 2 * C + channel
    tl.store(place, total, channel < C)
    tl.store(place + C, tl.sum(away * away, 0), channel < C)


@triton.jit
def pool(
    raw, shortcut, kept, features, affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BC: tl.constexpr, BHW: tl.constexpr,
    MOVING: tl.constexpr, SHORTCUT: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, SC: tl.constexpr, SBC: tl.constexpr, SR: tl.constexpr,
):  # fmt: skip
    """The feature of one image: the mean of its last activation, which is computed first."""
    image, place, channel = tl.program_id(0), tl.arange(0, BHW), tl.arange(0, BC)
    inside = place < H * W
    value, extra = _source(
        raw, shortcut, image, place // W, place % W, inside, channel, H, W, C, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    scale, shift = _affine(affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps, channel, C, MOVING)
    value = _activation(value, extra, scale, shift, True, SHORTCUT)
    valid = inside[:, None] & (channel[None, :] < C)
    tl.store(kept + (image * (H * W) + place)[:, None] * C + channel[None, :], value, valid)
    mean = tl.sum(tl.where(valid, value.to(tl.float32), 0.0), 0) / (H * W)
    tl.store(features + image * C + channel, mean, channel < C)


@triton.jit
def _store_sums(partial, gradient, value, saved, valid, C: tl.constexpr, channel):
    """This program's part of Σ gZ and Σ gZ·ŷ, the gradients of β and γ."""
    mean, rstd = tl.load(saved + channel, channel < C, 0.0), tl.load(saved + C + channel, channel < C, 0.0)
    normal = (value.to(tl.float32) - mean[None, :]) * rstd[None, :]
    place = partial + tl.program_id(0) * 2 * C + channel
    tl.store(place, tl.sum(tl.where(valid, gradient, 0.0), 0), channel < C)
    tl.store(place + C, tl.sum(tl.where(valid, gradient * normal, 0.0), 0), channel < C)


@triton.jit(do_not_specialize=RUNTIME)
def unpool(
    gradient, kept, raw, result, gamma, saved, sums, coefficients, partial, counter, images,
    HW: tl.constexpr, C: tl.constexpr, BC: tl.constexpr, BHW: tl.constexpr, BP: tl.constexpr, MOVING: tl.constexpr,
):  # fmt: skip
    """gZ of the last convolution, from the gradient of the features; one image per program."""
    place, channel = tl.arange(0, BHW), tl.arange(0, BC)
    valid = (place < HW)[:, None] & (channel[None, :] < C)
    value = tl.load(gradient + tl.program_id(0) * C + channel, channel < C, 0.0) / HW
    place = (tl.program_id(0) * HW + place)[:, None] * C + channel[None, :]
    below = tl.load(raw + place, valid, 0.0)
    alive = tl.load(kept + place, valid, 0.0) > 0
    rounded = tl.where(alive, value[None, :], 0.0).to(result.dtype.element_ty)
    tl.store(result + place, rounded, valid)
    _store_sums(partial, rounded.to(tl.float32), below, saved, valid, C, channel)
    _finish_backward(
        partial, counter, gamma, saved, sums, coefficients, images * HW, tl.arange(0, BP), channel, C, BP, MOVING
    )  # fmt: skip


@triton.jit
def emit(
    raw, shortcut, maps, affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BC: tl.constexpr, R: tl.constexpr, BW: tl.constexpr,
    MOVING: tl.constexpr, SHORTCUT: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, SC: tl.constexpr, SBC: tl.constexpr, SR: tl.constexpr,
):  # fmt: skip
    """The last activation of a chain on a tile of R rows, for others that take maps [image, row, column, channel]."""
    image, row, column, inside = _pixels(H, W, R, BW)
    channel = tl.arange(0, BC)
    value, extra = _source(
        raw, shortcut, image, row, column, inside, channel, H, W, C, SHORTCUT, SH, SW, SC, SBC, SR
    )  # fmt: skip
    scale, shift = _affine(affine_in, gamma_in, beta_in, mean_in, var_in, saved_in, eps, channel, C, MOVING)
    value = _activation(value, extra, scale, shift, True, SHORTCUT)
    place = ((image * H + row) * W + column)[:, None] * C + channel[None, :]
    tl.store(maps + place, value, inside[:, None] & (channel[None, :] < C))


@triton.jit(do_not_specialize=RUNTIME)
def absorb(
    gradient, maps, raw, result, gamma, saved, sums, coefficients, partial, counter, images,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BC: tl.constexpr, R: tl.constexpr, BW: tl.constexpr,
    BP: tl.constexpr, MOVING: tl.constexpr,
):  # fmt: skip
    """gZ of the last convolution of a chain, from the gradient of the maps that ``emit`` made; a tile per program."""
    image, row, column, inside = _pixels(H, W, R, BW)
    channel = tl.arange(0, BC)
    valid = inside[:, None] & (channel[None, :] < C)
    place = ((image * H + row) * W + column)[:, None] * C + channel[None, :]
    below = tl.load(raw + place, valid, 0.0)
    alive = tl.load(maps + place, valid, 0.0) > 0
    rounded = tl.where(alive, tl.load(gradient + place, valid, 0.0), 0.0).to(result.dtype.element_ty)
    tl.store(result + place, rounded, valid)
    _store_sums(partial, rounded.to(tl.float32), below, saved, valid, C, channel)
    _finish_backward(
        partial, counter, gamma, saved, sums, coefficients, images * (H * W), tl.arange(0, BP), channel, C, BP, MOVING
    )  # fmt: skip


@triton.jit
def _pixels(H: tl.constexpr, W: tl.constexpr, R: tl.constexpr, BW: tl.constexpr):
    """Image, rows and columns of a program's tile of R rows, and which of them exist."""
    tiles: tl.constexpr = (H + R - 1) // R
    own = tl.arange(0, R * BW)
    row, column = tl.program_id(0) % tiles * R + own // BW, own % BW
    return tl.program_id(0) // tiles, row, column, (row < H) & (column < W)


@triton.jit
def _normed_back(gradient, value, a, b, c):
    total = gradient.to(tl.float32) * a[None, :] + value.to(tl.float32) * b[None, :] + c[None, :]
    return total.to(gradient.dtype)


@triton.jit
def _window(home, row, column, tap, channel, S: tl.constexpr, WO: tl.constexpr, BC: tl.constexpr):
    """The gradients that one mirrored tap reads from a bordered tile."""
    if S == 1:
        seen = tl.load(home + ((row + tap // 3) * (WO + 2) + column + tap % 3)[:, None] * BC + channel)
    else:
        up, left = row + tap // 3 - 1, column + tap % 3 - 1
        even = (up >= 0) & (up % S == 0) & (left >= 0) & (left % S == 0)
        there = ((up // S + 1) * (WO + 2) + left // S + 1)[:, None] * BC + channel
        seen = tl.load(home + there, even[:, None], 0.0)
    return seen


@triton.jit(do_not_specialize=RUNTIME)
def convolve_back(
    gradient, raw, bordered, weight, coefficients_in,
    skipped, kept, raw_below, result, gamma, saved, sums, coefficients, partial, counter, images,
    H: tl.constexpr, W: tl.constexpr, S: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, BP: tl.constexpr,
    MOVING: tl.constexpr, SKIP: tl.constexpr, LAST: tl.constexpr, OPEN: tl.constexpr,
    BWI: tl.constexpr, BWO: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """gZ[l−1] on R·S rows, from gZ[l] through convolution l, with the shortcut's gradient.

    LAST: only make gY[l]. OPEN: below is no norm, but maps that were given; the result is their gradient.
    """
    _after_the_kernel_before(EARLY)
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    tiles: tl.constexpr = (HO + R - 1) // R
    image, first = tl.program_id(0) // tiles, tl.program_id(0) % tiles * R
    ci, co = tl.arange(0, BCI), tl.arange(0, BCO)
    own = tl.arange(0, R * BWO)
    row_o, column_o = own // BWO, own % BWO
    valid_o = ((first + row_o < HO) & (column_o < WO))[:, None] & (co[None, :] < CO)
    place_o = ((image * HO + first + row_o) * WO + column_o)[:, None] * CO + co[None, :]
    slope, value = tl.load(gradient + place_o, valid_o, 0.0), tl.load(raw + place_o, valid_o, 0.0)
    border = tl.arange(0, 2 * BWO)
    row_b, column_b = border // BWO * (R + 1) - 1, border % BWO
    valid_b = ((first + row_b >= 0) & (first + row_b < HO) & (column_b < WO))[:, None] & (co[None, :] < CO)
    place_b = ((image * HO + first + row_b) * WO + column_b)[:, None] * CO + co[None, :]
    slope_b, value_b = tl.load(gradient + place_b, valid_b, 0.0), tl.load(raw + place_b, valid_b, 0.0)
    a = tl.load(coefficients_in + co, co < CO, 0.0)
    b = tl.load(coefficients_in + CO + co, co < CO, 0.0)
    c = tl.load(coefficients_in + 2 * CO + co, co < CO, 0.0)
    home = bordered + tl.program_id(0) * ((R + 2) * (WO + 2) * BCO)
    place_o = home + ((row_o + 1) * (WO + 2) + column_o + 1)[:, None] * BCO + co[None, :]
    tl.store(place_o, _normed_back(slope, value, a, b, c), valid_o)
    place_b = home + ((row_b + 1) * (WO + 2) + column_b + 1)[:, None] * BCO + co[None, :]
    tl.store(place_b, _normed_back(slope_b, value_b, a, b, c), valid_b)
    if not LAST:
        tl.debug_barrier()
        pixel = tl.arange(0, R * S * BWI)
        row, column = pixel // BWI, pixel % BWI
        taps = weight + co[:, None] * BCI + ci[None, :]
        seen, factors = _window(home, row, column, 0, co[None, :], S, WO, BCO), tl.load(taps)
        total = tl.zeros([R * S * BWI, BCI], tl.float32)
        for tap in range(1, 10):
            next_seen = _window(home, row, column, tap, co[None, :], S, WO, BCO)
            next_factors = tl.load(taps + tap * (BCO * BCI))
            total = tl.dot(seen, factors, total, input_precision="ieee")
            seen, factors = next_seen, next_factors
        place = ((image * H + first * S + row) * W + column)[:, None] * CI + ci[None, :]
        valid = ((first * S + row < H) & (column < W))[:, None] & (ci[None, :] < CI)
        if SKIP == 1:
            total += tl.load(skipped + place, valid, 0.0).to(tl.float32)
        if SKIP == 2:
            half = ((image * HO + first + row // 2) * WO + column // 2)[:, None]
            even_pixel = ((row % 2 == 0) & (column % 2 == 0))[:, None]
            shifted = half * CO + ci[None, :] + (CO - CI) // 2
            total += tl.load(skipped + shifted, valid & even_pixel, 0.0).to(tl.float32)
        if OPEN:
            tl.store(result + place, total.to(result.dtype.element_ty), valid)
        else:
            mine = _bordered(image, first * S + row, column, H, W, R * S)[:, None] * BCI + ci[None, :]
            alive = tl.load(kept + mine, valid, 0.0) > 0
            below = tl.load(raw_below + place, valid, 0.0)
            rounded = tl.where(alive, total, 0.0).to(result.dtype.element_ty)
            tl.store(result + place, rounded, valid)
            _store_sums(partial, rounded.to(tl.float32), below, saved, valid, CI, ci)
            part = tl.arange(0, BP)
            _finish_backward(
                partial, counter, gamma, saved, sums, coefficients, images * (H * W), part, ci, CI, BP, MOVING
            )  # fmt: skip


@triton.jit
def _operands(
    kept, bordered, number, corner, middle, real, W: tl.constexpr, WO: tl.constexpr, S: tl.constexpr,
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Output gradients of a chunk of a tile, and the inputs of some taps."""
    tile, chunk = number // CHUNKS, number % CHUNKS * (R // CHUNKS)
    slope = tl.load(bordered + ((tile * (R + 2) + chunk) * (WO + 2)) * BCO + middle, real, 0.0)
    return slope, tl.load(kept + ((tile * (R * S + 2) + chunk * S) * (W + 2)) * BCI + corner)


@triton.jit(do_not_specialize=["tiles"])
def weigh(
    kept, bordered, partial, tiles, kept_stride, bordered_stride, partial_stride,
    W: tl.constexpr, S: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,
    BCI: tl.constexpr, BCO: tl.constexpr, R: tl.constexpr, BWO: tl.constexpr, TILES: tl.constexpr, CHUNKS: tl.constexpr,
    P: tl.constexpr,
):  # fmt: skip
    """The gradient of a convolution's weights: one row of taps, some tiles, one of several convolutions per program.

    A product has ``P`` output pixels in a row of its matrix, and the P + 2 adjacent input pixels of their taps, which
    are contiguous in memory: an input is loaded (P + 2) / P times instead of three times. With stride 2, P is 1. Each
    of the P pixels gives a partial result of its own.
    """
    WO: tl.constexpr = (W + S - 1) // S
    down, layer = tl.program_id(1), tl.program_id(2).to(tl.int64)
    read: tl.constexpr = 4 * BCI if P == 1 else 2 * P * BCI  # P + 2 adjacent inputs, and some that are not used
    span, many = tl.arange(0, read), tl.arange(0, P * BCO)
    output, co = many // BCO, many % BCO
    block = tl.arange(0, R // CHUNKS * BWO // P)
    row, column = block // (BWO // P), block % (BWO // P) * P
    corner = ((row * S + down) * (W + 2) + column * S)[:, None] * BCI + span[None, :]
    middle = ((row + 1) * (WO + 2) + column + 1)[:, None] * BCO + many[None, :]
    real = column[:, None] + output[None, :] < WO
    kept += layer * kept_stride
    bordered += layer * bordered_stride
    start = tl.program_id(0) * TILES
    end = tl.minimum(start + TILES, tiles) * CHUNKS
    total = tl.zeros([read, P * BCO], tl.float32)
    slope, seen = _operands(
        kept, bordered, start * CHUNKS, corner, middle, real, W, WO, S, BCI, BCO, R, CHUNKS
    )  # fmt: skip
    for number in range(start * CHUNKS + 1, end + 1):  # the next chunk is read ahead; the last read is not used
        next_slope, next_seen = _operands(
            kept, bordered, number, corner, middle, real, W, WO, S, BCI, BCO, R, CHUNKS
        )  # fmt: skip
        total = tl.dot(tl.trans(seen), slope, total, input_precision="ieee")
        slope, seen = next_slope, next_seen
    place = partial + tl.program_id(0).to(tl.int64) * P * partial_stride + layer * (9 * CI * CO)
    tap, channel = span[:, None] // BCI - output[None, :], span[:, None] % BCI
    place += output[None, :].to(tl.int64) * partial_stride + (co[None, :] * 9 + down * 3 + tap) * CI + channel
    tl.store(place, total, (co[None, :] < CO) & (tap >= 0) & (tap < 3) & (channel < CI))


@triton.jit
def add_partials(partial, result, table, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """Weight gradients of all convolutions, added over partial results; ``table`` says where each program works."""
    row = table + tl.program_id(0) * 5
    source, target, size = tl.load(row), tl.load(row + 1), tl.load(row + 2)
    stride, splits = tl.load(row + 3), tl.load(row + 4)
    place, split = tl.arange(0, BLOCK)[None, :], tl.arange(0, SPLITS)[:, None]
    total = tl.zeros([SPLITS, BLOCK], tl.float32)
    for start in range(0, splits, SPLITS):
        here = (start + split < splits) & (place < size)
        total += tl.load(partial + source + (start + split) * stride + place, here, 0.0)
    place = tl.arange(0, BLOCK)
    tl.store(result + target + place, tl.sum(total, 0), place < size)


@triton.jit
def pack(table, forward, backward, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr):
    """Weights as the products read them: as they are forward, mirrored and with inputs for outputs backward.

    A row of ``table`` is one tap of one convolution: where its weights [output, tap, input] lie, the numbers of
    channels; for each direction where they go, and the strides of inputs and outputs there. A program has all inputs of
    some outputs.
    """
    row = table + tl.program_id(0) * 10
    source = (tl.load(row)).to(tl.pointer_type(tl.float32))
    tap, inputs, outputs = tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    ci, co = tl.arange(0, INPUTS)[None, :], tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)[:, None]
    real = (ci < inputs) & (co < outputs)
    value = tl.load(source + (co * 9 + tap) * inputs + ci, real, 0.0).to(forward.dtype.element_ty)
    there = forward + tl.load(row + 4)
    tl.store(there + ci * tl.load(row + 5) + co * tl.load(row + 6), value, real)
    back = backward + tl.load(row + 7)
    tl.store(back + co * tl.load(row + 8) + ci * tl.load(row + 9), value, real)
