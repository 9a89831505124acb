"""Random resized crops: a box of random area and shape is cut out of a picture and brought to a fixed size.

The rule is the usual one: the share of the area is uniform, the ratio of width to height log-uniform; of ten tries the
first that fits is taken, and where none does, the largest box in the middle whose ratio is allowed. Boxes are not
rounded to whole pixels. Everything here is device code on whole batches; the draws are made before.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

TRIES = 10


def boxes(tries: Tensor, places: Tensor, aspects: Tensor | None, ratio: Sequence[float]) -> Tensor:
    """Left, top, width and height [batch, 4] of a box in each picture, as shares of the picture's sides.

    ``tries`` [batch, 10, 2] are shares of the area and logarithms of the ratio, ``places`` [batch, 2] say where across
    and down in 0 … 1, ``aspects`` [batch] are width / height of the pictures (1 by default).
    """
    aspect = torch.ones_like(places[:, 0]) if aspects is None else aspects
    area, relative = tries[..., 0], tries[..., 1].exp() / aspect[:, None]  # width to height, in shares of the sides
    width, height = (area * relative).sqrt(), (area / relative).sqrt()
    fits = (width <= 1) & (height <= 1)
    first = fits.int().argmax(dim=1, keepdim=True)
    found = torch.cat([width.gather(1, first), height.gather(1, first)], dim=1)
    sizes = torch.where(fits.any(dim=1)[:, None], found, _largest(aspect, ratio))
    where = torch.where(fits.any(dim=1)[:, None], places, 0.5)
    return torch.cat([where * (1 - sizes), sizes], dim=1)


def _largest(aspect: Tensor, ratio: Sequence[float]) -> Tensor:
    """Width and height of the largest box with an allowed ratio, as shares of the picture's sides."""
    return torch.stack([(ratio[1] / aspect).clamp(max=1), (aspect / ratio[0]).clamp(max=1)], dim=1)


def cut_out(images: Tensor, found: Tensor, flips: Tensor, shape: tuple[int, int]) -> Tensor:
    """Boxes of images [batch, H, W, C] brought to ``shape`` as floats; mirrored where ``flips`` says so.

    Bilinear: each pixel of the result is taken from the point in the middle of its part of the box.
    """
    down, across = (_middles(side, images.device) for side in shape)
    across = torch.where(flips[:, None], 1 - across, across) * found[:, 2:3] + found[:, 0:1]
    down = down * found[:, 3:4] + found[:, 1:2]
    columns = (2 * across - 1)[:, None, :].expand(-1, shape[0], -1)
    rows = (2 * down - 1)[:, :, None].expand(-1, -1, shape[1])
    grid = torch.stack([columns, rows], dim=3)
    floats = images.permute(0, 3, 1, 2).float()
    sampled = F.grid_sample(floats, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.permute(0, 2, 3, 1).contiguous()


def _middles(side: int, device: torch.device) -> Tensor:
    """Where the middles of so many pixels lie, as shares of a side."""
    return (torch.arange(side, device=device, dtype=torch.float32) + 0.5) / side
