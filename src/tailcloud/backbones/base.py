"""What every backbone of ours is."""

from torch import nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Backbone(nn.Module):
    """Maps normalised images [batch, channels, H, W] to features [batch, ``features``].

    ``mean`` and ``std`` are the normalisation that its published weights expect.
    """

    features: int
    not_in_files: str | None = None  # its parameters that start with this may be missing in a file of weights
    left_in_files: str | None = None  # what starts with this in a file of weights may be missing here
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
