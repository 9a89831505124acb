"""What a head is here: a module from features to one output per class."""

from typing import ClassVar

from torch import Tensor, nn


class Head(nn.Module):
    """``head(features)``: features [batch, features] in, outputs [batch, classes] out.

    Everything that a head needs to predict is a parameter or a persistent buffer, and its constructor takes the two
    sizes alone: so a saved model is its head's name and its tensors.
    """

    cosine: ClassVar[bool]  # outputs lie in [−1, 1], and the loss stretches them

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [batch, classes]."""
        raise NotImplementedError
