"""The Triton kernel of the operations of AutoAugment, RandAugment and TrivialAugment: one program an image."""

import math
from typing import Any

import triton
import triton.language as tl

# As ``data.augment.image_ops`` has them, which imports PyTorch; a test compares them.
OPERATIONS = (
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
    "invert",
)
LUMINANCE = (0.299, 0.587, 0.114)


def _number(name: str) -> Any:
    return tl.constexpr(OPERATIONS.index(name))


SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE = map(
    _number, ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
)
BRIGHTNESS, COLOR, CONTRAST, SHARPNESS = map(_number, ("brightness", "color", "contrast", "sharpness"))
POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE = map(_number, ("posterize", "solarize", "autocontrast", "equalize"))
RED, GREEN, BLUE = map(tl.constexpr, LUMINANCE)
RADIANS = tl.constexpr(math.pi / 180)


@triton.jit
def _warp(
    source, target, operation, strength, fill,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sheared, translated or rotated, bilinearly; the identity keeps every bit."""
    angle = tl.where(operation == ROTATE, strength, 0.0) * RADIANS
    cos, sin = tl.cos(angle), tl.sin(angle)
    right = W / 2 - (cos * (W / 2) - sin * (H / 2)) + tl.where(operation == TRANSLATE_X, strength, 0.0) * W
    below = H / 2 - (sin * (W / 2) + cos * (H / 2)) + tl.where(operation == TRANSLATE_Y, strength, 0.0) * H
    across = tl.where(operation == SHEAR_X, strength, 0.0) - sin
    down = tl.where(operation == SHEAR_Y, strength, 0.0) + sin
    for start in range(0, H * W, BLOCK):
        place = start + tl.arange(0, BLOCK)
        here = place < H * W
        x, y = (place % W).to(tl.float32) + 0.5, (place // W).to(tl.float32) + 0.5
        column, row = cos * x + across * y + right, down * x + cos * y + below
        inside = (column >= 0) & (column < W) & (row >= 0) & (row < H)
        column = tl.minimum(tl.maximum(column - 0.5, 0.0), W - 1.0)
        row = tl.minimum(tl.maximum(row - 0.5, 0.0), H - 1.0)
        left, top = tl.floor(column), tl.floor(row)
        share, part = column - left, row - top
        first = top.to(tl.int32) * W + left.to(tl.int32)
        aside = tl.where(left < W - 1.0, 1, 0)
        under = tl.where(top < H - 1.0, W, 0)
        for channel in tl.static_range(C):
            upper = (1 - share) * tl.load(source + first * C + channel, here, 0.0)
            upper += share * tl.load(source + (first + aside) * C + channel, here, 0.0)
            lower = (1 - share) * tl.load(source + (first + under) * C + channel, here, 0.0)
            lower += share * tl.load(source + (first + under + aside) * C + channel, here, 0.0)
            value = (1 - part) * upper + part * lower
            tl.store(target + place * C + channel, tl.where(inside, value, fill), here)


@triton.jit
def _grey(source, place, here, channel: tl.constexpr, C: tl.constexpr):
    """The grey of some pixels; a channel of an image of other than three stays."""
    if C == 3:
        red = tl.load(source + place * C, here, 0.0)
        green = tl.load(source + place * C + 1, here, 0.0)
        blue = tl.load(source + place * C + 2, here, 0.0)
        return red * RED + green * GREEN + blue * BLUE
    return tl.load(source + place * C + channel, here, 0.0)


@triton.jit
def _blend(
    source, target, operation, strength,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GREYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Moved away from, or towards, another image: black, its grey, its mean grey, or smoothed."""
    mean = 0.0
    if operation == CONTRAST:
        for start in range(0, H * W, BLOCK):
            place = start + tl.arange(0, BLOCK)
            for channel in tl.static_range(GREYS):
                mean += tl.sum(_grey(source, place, place < H * W, channel, C)) / (H * W * GREYS)
    for start in range(0, H * W, BLOCK):
        place = start + tl.arange(0, BLOCK)
        here = place < H * W
        row, column = place // W, place % W
        inner = (row > 0) & (row < H - 1) & (column > 0) & (column < W - 1)
        for channel in tl.static_range(C):
            image = tl.load(source + place * C + channel, here, 0.0)
            other = tl.zeros([BLOCK], tl.float32) + mean
            if operation == COLOR:
                other = _grey(source, place, here, channel, C)
            if operation == SHARPNESS:
                nine = 4 * image
                for neighbour in tl.static_range(9):
                    beside = place + (neighbour // 3 - 1) * W + neighbour % 3 - 1
                    nine += tl.load(source + beside * C + channel, here & inner, 0.0)
                other = tl.where(inner, nine / 13, image)
            value = image + strength * (image - other)
            tl.store(target + place * C + channel, tl.minimum(tl.maximum(value, 0.0), 255.0), here)


@triton.jit
def _levels(source, place, here, channel: tl.constexpr, C: tl.constexpr):
    """Whole levels: the nearest, and the even one of two."""
    value = tl.load(source + place * C + channel, here, 0.0)
    above = tl.floor(value + 0.5)
    level = above.to(tl.int32)
    return level - tl.where((above - value == 0.5) & (level % 2 == 1), 1, 0)


@triton.jit
def _map(
    source, target, operation, strength,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Levels by a table: posterized, solarized, stretched, equalized or inverted."""
    bits, bound = strength.to(tl.int32), 256 - strength
    for channel in tl.static_range(C):
        low, high = 256, -1
        counts = tl.zeros([256], tl.int32)
        if (operation == AUTOCONTRAST) | (operation == EQUALIZE):
            for start in range(0, H * W, BLOCK):
                place = start + tl.arange(0, BLOCK)
                here = place < H * W
                level = _levels(source, place, here, channel, C)
                low = tl.minimum(low, tl.min(tl.where(here, level, 256)))
                high = tl.maximum(high, tl.max(tl.where(here, level, -1)))
                counts += tl.histogram(tl.where(here, level, 0), 256)
        level_of = tl.arange(0, 256)
        counts -= tl.where(level_of == 0, (BLOCK - H * W % BLOCK) % BLOCK, 0)  # what is past the end of the image
        darker = tl.cumsum(counts, 0) - counts
        lightest = tl.sum(tl.where(level_of == high, counts, 0))
        step = (H * W - lightest) // 255
        spread = tl.minimum((step // 2 + darker) // tl.maximum(step, 1), 255)
        table = 255 - level_of
        if operation == POSTERIZE:
            table = (level_of >> bits) << bits
        if operation == SOLARIZE:
            table = tl.where(level_of < bound, level_of, 255 - level_of)
        if operation == AUTOCONTRAST:
            stretched = (level_of - low) * 255 // tl.maximum(high - low, 1)
            table = tl.where(high > low, tl.minimum(tl.maximum(stretched, 0), 255), level_of)
        if operation == EQUALIZE:
            table = tl.where(step > 0, spread, level_of)
        for start in range(0, H * W, BLOCK):
            place = start + tl.arange(0, BLOCK)
            here = place < H * W
            level = tl.gather(table, _levels(source, place, here, channel, C), 0)
            tl.store(target + place * C + channel, level.to(tl.float32), here)


@triton.jit
def operate(
    images, operations, strengths, result, operation_stride, strength_stride, fill,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GREYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One image by its operation."""
    number = tl.program_id(0)
    operation = tl.load(operations + number * operation_stride).to(tl.int32)
    strength = tl.load(strengths + number * strength_stride)
    source, target = images + number * (H * W * C), result + number * (H * W * C)
    if operation < BRIGHTNESS:
        _warp(source, target, operation, strength, fill, H, W, C, BLOCK)
    elif operation < POSTERIZE:
        _blend(source, target, operation, strength, H, W, C, GREYS, BLOCK)
    else:
        _map(source, target, operation, strength, H, W, C, BLOCK)
