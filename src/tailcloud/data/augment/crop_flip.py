"""Random crops and flips of whole batches, from draws that were made before."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def crop_and_flip(images: Tensor, corners: Tensor, flips: Tensor, padding: int) -> Tensor:
    """Pad with black, cut the old size out again at ``corners``, and mirror where ``flips`` says so.

    images [batch, H, W, C] uint8; corners [batch, 2] (row, column) in 0 … 2·padding; flips [batch] bool.
    """
    batch, height, width, _ = images.shape
    device = images.device
    padded = F.pad(images, (0, 0, padding, padding, padding, padding)) if padding else images
    across = torch.arange(width, device=device)
    across = torch.where(flips[:, None], width - 1 - across, across)
    rows = corners[:, :1] + torch.arange(height, device=device)
    columns = corners[:, 1:] + across
    which = torch.arange(batch, device=device)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]]
