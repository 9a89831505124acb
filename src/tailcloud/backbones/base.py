"""The base class of backbones."""

from typing import ClassVar

from torch import Tensor, nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Backbone(nn.Module):
    """Maps normalised images [batch, channels, H, W] to features [batch, ``features``].

    ``mean`` and ``std`` are the normalisation that its published weights expect.
    """

    features: int
    experts: int = 1  # its features are those of so many experts, concatenated
    missing_in_files: str | None = None  # prefix of parameters that a weights file may lack
    unused_in_files: str | None = None  # prefix of parameters in a weights file that are not used
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    sequential: ClassVar[bool] = (
        False  # its features are the average over the maps after the last ``layer``; a subclass
    )
    # says so anew, since it may compute something else

    def layers(self) -> list[list[str]]:
        """The names of its parts, layer by layer from the input to the output, for layer-wise learning rates.

        By default it is one layer.
        """
        return []

    def layer(self, number: int, maps: Tensor) -> Tensor:
        """Images, or feature maps of the layer before, through one of ``layers``, if the backbone is ``sequential``."""
        raise NotImplementedError(f"{type(self).__name__} is not computed layer by layer")

    def residual_blocks(self) -> list[nn.Module]:
        """The blocks that drop path can skip, from the input to the output.

        If there are any, ``forward(images, path_weights)`` multiplies their residual branches by weights [batch,
        blocks].
        """
        return []


def global_average_pool(maps: Tensor) -> Tensor:
    """Feature maps [batch, channels, H, W] averaged over H and W, in memory order, also for the gradients."""
    return maps.permute(0, 2, 3, 1).mean(dim=(1, 2))
