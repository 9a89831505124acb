"""Triton kernels that make batches: one gathers, crops, flips, normalises and mixes, one cuts holes and normalises."""

import triton
import triton.language as tl


@triton.jit
def _view(
    images, order, corners, flips, factor, offset, position, place,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PADDING: tl.constexpr,
):  # fmt: skip
    """Some numbers of an augmented image: padded with black, cropped, flipped, normalised."""
    channel, column, row = place % C, place // C % W, place // (C * W)
    column = tl.where(tl.load(flips + position) != 0, W - 1 - column, column)
    row += tl.load(corners + 2 * position) - PADDING
    column += tl.load(corners + 2 * position + 1) - PADDING
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W) & (place < H * W * C)
    source = images + tl.load(order + position) * (H * W * C) + (row * W + column) * C + channel
    pixel = tl.load(source, inside, 0).to(tl.float32)
    return tl.load(offset + channel) + pixel * tl.load(factor + channel)


@triton.jit
def assemble(
    images, labels, order, corners, flips, partners, lam, rows, factor, offset, result, target, other,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PADDING: tl.constexpr, MIXED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one image of a batch, and its class."""
    number, place = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    position = tl.load(rows + number)
    value = _view(images, order, corners, flips, factor, offset, position, place, H, W, C, PADDING)
    first = tl.program_id(1) == 0
    tl.store(target + number, tl.load(labels + tl.load(order + position)), first)
    if MIXED:
        partner, share = tl.load(partners + position), tl.load(lam)
        second = _view(images, order, corners, flips, factor, offset, partner, place, H, W, C, PADDING)
        value = share * value + (1 - share) * second
        tl.store(other + number, tl.load(labels + tl.load(order + partner)), first)
    tl.store(result + number * (H * W * C) + place, value.to(result.dtype.element_ty), place < H * W * C)


@triton.jit
def normalise(
    images, holes, rows, factor, offset, result,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one image, with a black square, normalised."""
    number, place = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel, column, row, here = place % C, place // C % W, place // (C * W), place < H * W * C
    value = tl.load(images + number * (H * W * C) + place, here, 0.0)
    if SIDE > 0:
        hole = holes + 2 * tl.load(rows + number)
        left = tl.floor(tl.load(hole) * W).to(tl.int32) - SIDE // 2
        top = tl.floor(tl.load(hole + 1) * H).to(tl.int32) - SIDE // 2
        across, down = (column >= left) & (column < left + SIDE), (row >= top) & (row < top + SIDE)
        value = tl.where(across & down, 0.0, value)
    value = tl.load(offset + channel) + value * tl.load(factor + channel)
    tl.store(result + number * (H * W * C) + place, value.to(result.dtype.element_ty), here)
