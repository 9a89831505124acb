"""Boxes in images, as masks of pixels: for what erases a box, and for CutMix."""

import torch
from torch import Tensor


def box_mask(boxes: Tensor, shape: tuple[int, int]) -> Tensor:
    """Which pixels have their centres in a box: bool [batch, H, W].

    ``boxes`` [batch, 4] are left, top, width and height as shares of the image's sides.
    """
    rows, columns = ((torch.arange(side, device=boxes.device) + 0.5) / side for side in shape)
    left, top, width, height = boxes[:, :, None].unbind(dim=1)
    across = (columns >= left) & (columns < left + width)
    down = (rows >= top) & (rows < top + height)
    return down[:, :, None] & across[:, None, :]
