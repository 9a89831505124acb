"""The operations of TrivialAugment, RandAugment and AutoAugment, on whole batches: each image has its own.

Every operation is one of three: an affine map (shear, translate, rotate), a blend with another image made from it
(brightness, contrast, color, sharpness), or a table of 256 entries (posterize, solarize, autocontrast, equalize,
invert). So a batch takes three passes at most, whichever operations its images have. They are those of Pillow, without
rounding in between; the tests say how close they are.
"""

from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

# Strength 0 is the identity, except for autocontrast, equalize and invert, which have no strength.
OPERATIONS = (
    "identity",
    "shear_x",  # the source's column is x + strength · y
    "shear_y",
    "translate_x",  # to the left, as a share of the width
    "translate_y",  # upwards, as a share of the height
    "rotate",  # degrees, counterclockwise
    "brightness",  # factor 1 + strength, so −1 is black
    "color",  # the same; −1 is grey
    "contrast",  # the same; −1 is the image's mean grey everywhere
    "sharpness",  # the same; −1 is smoothed
    "posterize",  # the number of low bits that are set to 0
    "solarize",  # levels from 256 − strength on are inverted
    "autocontrast",
    "equalize",
    "invert",
)
AFFINE = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
BLENDS = ("brightness", "color", "contrast", "sharpness")
TABLES = ("posterize", "solarize", "autocontrast", "equalize", "invert")
ONE_SIGN = tuple(OPERATIONS.index(name) for name in ("posterize", "solarize"))  # strengths are never negative
LEVELS = 256
LUMINANCE = 0.299, 0.587, 0.114  # of red, green and blue (ITU-R BT.601)


class ImageOperations(Protocol):
    """``apply_operations``, or a kernel that computes the same."""

    def __call__(self, images: Tensor, operations: Tensor, strengths: Tensor, *, fill: float) -> Tensor:
        """Images, each changed by its own operation."""


def apply_operations(images: Tensor, operations: Tensor, strengths: Tensor, *, fill: float = 0.0) -> Tensor:
    """Float images [batch, H, W, C] on a scale of 0 … 255, each changed by its own operation.

    ``operations`` [batch] are positions in ``OPERATIONS``, ``strengths`` [batch] floats. What an affine map takes from
    outside of the image has the level ``fill``. On a CPU each pass takes its own images (a mean grey may then be
    added up in another order); elsewhere it takes all, and no host value is read.
    """
    if images.device.type != "cpu":
        chosen = Chosen(operations, strengths)
        return mapped(enhanced(warped(images, chosen, fill), chosen), chosen)
    result = images.clone()
    for names, change in ((AFFINE, partial(warped, fill=fill)), (BLENDS, enhanced), (TABLES, mapped)):
        rows = Chosen(operations, strengths).has(*names).nonzero().flatten()
        if len(rows):
            result[rows] = change(images[rows], Chosen(operations[rows], strengths[rows]))
    return result


def apply_in_turn(
    images: Tensor, operations: Tensor, strengths: Tensor, *, fill: float, apply: ImageOperations
) -> Tensor:
    """``apply`` for several operations, one after another: ``operations`` and ``strengths`` are [batch, number]."""
    for number in range(operations.shape[1]):
        images = apply(images, operations[:, number], strengths[:, number], fill=fill)
    return images


class Chosen:
    """Which operation each image has, and how strong it is."""

    def __init__(self, operations: Tensor, strengths: Tensor) -> None:
        self.operations, self.strengths = operations, strengths

    def has(self, *names: str) -> Tensor:
        """Which images have one of these operations [batch]."""
        numbers = [OPERATIONS.index(name) for name in names]
        return torch.stack([self.operations == number for number in numbers]).any(dim=0)

    def strength(self, *names: str) -> Tensor:
        """The strengths of images that have one of these operations, 0 for the others [batch]."""
        return torch.where(self.has(*names), self.strengths, 0.0)


def to_grey(images: Tensor) -> Tensor:
    """The grey of each pixel [batch, H, W, 1]; images of other than three channels are returned unchanged."""
    if images.shape[3] != len(LUMINANCE):
        return images
    red, green, blue = images.unbind(dim=3)
    return (LUMINANCE[0] * red + LUMINANCE[1] * green + LUMINANCE[2] * blue)[..., None]


def warped(images: Tensor, chosen: Chosen, fill: float) -> Tensor:
    """Images sheared, translated or rotated, bilinearly; those without such an operation keep their bits."""
    height, width = images.shape[1:3]
    matrices = _matrices(chosen, height, width)
    across, down = (torch.arange(side, device=images.device) + 0.5 for side in (width, height))
    x, y = across[None, None, :], down[None, :, None]
    a, b, c, d, e, f = (entry[:, None, None] for entry in matrices.unbind(dim=1))
    columns, rows = a * x + b * y + c, d * x + e * y + f  # of the source, in pixels
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    grid = torch.stack([2 * columns / width - 1, 2 * rows / height - 1], dim=3)
    sampled = F.grid_sample(images.permute(0, 3, 1, 2), grid, padding_mode="border", align_corners=False)
    filled = torch.where(inside[..., None], sampled.permute(0, 2, 3, 1), fill)
    still = chosen.strength(*AFFINE) == 0
    return torch.where(still[:, None, None, None], images, filled)


def _matrices(chosen: Chosen, height: int, width: int) -> Tensor:
    """From the place of a pixel to that of its source: (a, b, c, d, e, f) of a·x + b·y + c, d·x + e·y + f."""
    angle = torch.deg2rad(chosen.strength("rotate"))
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2, height / 2  # the centre of rotations
    right = x - (cos * x - sin * y) + chosen.strength("translate_x") * width
    below = y - (sin * x + cos * y) + chosen.strength("translate_y") * height
    rows = cos, chosen.strength("shear_x") - sin, right, chosen.strength("shear_y") + sin, cos, below
    return torch.stack(rows, dim=1)


def enhanced(images: Tensor, chosen: Chosen) -> Tensor:
    """Images moved away from, or towards, another image: black, their grey, their mean grey, or smoothed."""
    grey = to_grey(images)
    other = grey.mean(dim=(1, 2, 3), keepdim=True) * chosen.has("contrast")[:, None, None, None]  # or black
    other = torch.where(chosen.has("color")[:, None, None, None], grey, other)
    other = torch.where(chosen.has("sharpness")[:, None, None, None], smoothed(images), other)
    factors = 1 + chosen.strength(*BLENDS)
    return torch.lerp(other, images, factors[:, None, None, None]).clamp(0, LEVELS - 1)


def smoothed(images: Tensor) -> Tensor:
    """Each pixel with weight 5 among its eight neighbours; those at the border stay."""
    if min(images.shape[1:3]) < 3:  # all pixels are at the border
        return images
    down = images[:, :-2] + images[:, 1:-1] + images[:, 2:]
    nine = down[:, :, :-2] + down[:, :, 1:-1] + down[:, :, 2:]
    result = images.clone()
    result[:, 1:-1, 1:-1] = (nine + 4 * images[:, 1:-1, 1:-1]) / 13
    return result


def mapped(images: Tensor, chosen: Chosen) -> Tensor:
    """Images whose levels are replaced by a table's; they are rounded first. The others keep their bits."""
    levels = images.round().to(torch.uint8).long().flatten(1, 2)  # [batch, pixels, C]
    counts = images.new_zeros(len(images), LEVELS, images.shape[3])
    counts.scatter_add_(1, levels, counts.new_ones(()).expand(levels.shape))
    tables = _tables(chosen, counts.long()).to(images.dtype)
    changed = chosen.has(*TABLES)
    return torch.where(changed[:, None, None, None], tables.gather(1, levels).view_as(images), images)


def _tables(chosen: Chosen, counts: Tensor) -> Tensor:
    """The new level of each level in each image [batch, 256, C]; ``counts`` [batch, 256, C] are the pixels of each."""
    levels = torch.arange(LEVELS, device=counts.device)[:, None]
    bits = chosen.strength("posterize").long()[:, None, None]
    bound = LEVELS - chosen.strength("solarize")[:, None, None]
    tables = (levels >> bits) << bits
    tables = torch.where(levels < bound, tables, LEVELS - 1 - levels)
    tables = torch.where(chosen.has("invert")[:, None, None], LEVELS - 1 - levels, tables)
    tables = torch.where(chosen.has("autocontrast")[:, None, None], autocontrast_table(counts, levels), tables)
    return torch.where(chosen.has("equalize")[:, None, None], equalize_table(counts, levels), tables)


def autocontrast_table(counts: Tensor, levels: Tensor) -> Tensor:
    """The darkest level becomes 0 and the lightest 255; a channel of one level stays."""
    present = counts > 0
    low = torch.where(present, levels, LEVELS).amin(dim=1, keepdim=True)
    span = torch.where(present, levels, -1).amax(dim=1, keepdim=True) - low
    stretched = ((levels - low) * (LEVELS - 1) // span.clamp(min=1)).clamp(0, LEVELS - 1)
    return torch.where(span > 0, stretched, levels)


def equalize_table(counts: Tensor, levels: Tensor) -> Tensor:
    """All levels become about equally frequent; a channel of too few pixels or of one level stays."""
    lightest = torch.where(counts > 0, levels, 0).amax(dim=1, keepdim=True)
    step = (counts.sum(dim=1, keepdim=True) - counts.gather(1, lightest)) // (LEVELS - 1)
    darker = counts.cumsum(dim=1) - counts
    spread = ((step // 2 + darker) // step.clamp(min=1)).clamp(max=LEVELS - 1)
    return torch.where(step > 0, spread, levels)
