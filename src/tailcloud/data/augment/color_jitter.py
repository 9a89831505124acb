"""Random brightness, contrast and saturation of whole batches, from factors that were drawn before."""

import torch
from torch import Tensor

LUMINANCE = 0.299, 0.587, 0.114  # of red, green and blue (ITU-R BT.601)


def jittered(images: Tensor, factors: Tensor) -> Tensor:
    """Images [batch, H, W, C] on a scale of 0 … 255 with their colours changed by ``factors`` [batch, 3].

    Always in this order: brightness (towards black), contrast (towards the image's mean grey), saturation (towards the
    grey of each pixel); a factor of 1 changes nothing, and values are kept within 0 … 255 after each. An image of one
    channel has no saturation.
    """
    brightness, contrast, saturation = (factor[:, None, None, None] for factor in factors.unbind(dim=1))
    bright = (brightness * images).clamp(0, 255)
    mean = _grey(bright).mean(dim=(1, 2, 3), keepdim=True)
    contrasted = torch.lerp(mean, bright, contrast).clamp(0, 255)
    if images.shape[3] != len(LUMINANCE):
        return contrasted
    return torch.lerp(_grey(contrasted), contrasted, saturation).clamp(0, 255)


def _grey(images: Tensor) -> Tensor:
    """The grey of each pixel [batch, H, W, 1]."""
    if images.shape[3] != len(LUMINANCE):
        return images
    red, green, blue = images.unbind(dim=3)
    return (LUMINANCE[0] * red + LUMINANCE[1] * green + LUMINANCE[2] * blue)[..., None]
